#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

// One line of events.jsonl. The accessors tolerate missing keys and wrong types.

using RunEvent = nlohmann::ordered_json;

std::string text_of(const RunEvent& event, const char* key);              // or ""
std::optional<double> number_of(const RunEvent& event, const char* key);  // finite
std::int64_t step_of(const RunEvent& event);                              // or 0
inline bool is(const RunEvent& event, const char* name) {
  return text_of(event, "event") == name;
}
bool is_begin(const RunEvent& event);  // start or resume of an incarnation

// The other keys as (label, formatted value), such as ("took", "1.2 s").
std::vector<std::pair<std::string, std::string>> details_of(const RunEvent& event);

// At most `most` bytes of whole UTF-8 characters, followed by " [...]" if truncated.
std::string shortened(std::string text, std::size_t most);

// Its "time" in seconds since 1970.
std::optional<double> time_of(const RunEvent& event);
// "2026-03-01T12:00:00.123Z" -> "2026-03-01 12:00:00"
std::string short_time(std::string time);

}  // namespace trireme
