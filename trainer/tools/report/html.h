#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace trireme {

// Escapes text for HTML elements and quoted attributes. Invalid UTF-8 and control characters become
// U+FFFD.
std::string html_escape(std::string_view text);

// JSON for <script type="application/json">: ASCII only, with <, > and & escaped.
std::string json_for_script(const nlohmann::ordered_json& value);

// Replaces every {{name}} of `form` in one pass; inserted text is not expanded. Throws Error for a
// name without a value or an unused value.
std::string fill(std::string_view form,
                 const std::map<std::string, std::string, std::less<>>& values);

}  // namespace trireme
