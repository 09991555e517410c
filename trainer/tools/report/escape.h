#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace trireme {

// Text for between tags and inside quoted attributes. Bytes that are not UTF-8 and
// control characters become U+FFFD, so that the page is valid whatever the run wrote.
std::string html_escape(std::string_view text);

// JSON for inside <script type="application/json">: ASCII only, and none of it can end
// the element or start another.
std::string json_for_script(const nlohmann::ordered_json& value);

}  // namespace trireme
