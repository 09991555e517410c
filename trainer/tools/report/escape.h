#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace trireme {

// Escapes text for HTML elements and quoted attributes. Invalid UTF-8 and control characters become
// U+FFFD.
std::string html_escape(std::string_view text);

// JSON for <script type="application/json">: ASCII only, with <, > and & escaped.
std::string json_for_script(const nlohmann::ordered_json& value);

}  // namespace trireme
