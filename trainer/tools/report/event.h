#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

// What a line of events.jsonl says, as far as it is what one expects.

using RunEvent = nlohmann::ordered_json;

std::string text_of(const RunEvent& event, const char* key);              // or nothing
std::optional<double> number_of(const RunEvent& event, const char* key);  // finite
std::int64_t step_of(const RunEvent& event);                              // or 0
inline bool is(const RunEvent& event, const char* name) {
  return text_of(event, "event") == name;
}
bool is_begin(const RunEvent& event);  // of an incarnation

// What else it tells, as people read it: ("took", "1.2 s"), ...
std::vector<std::pair<std::string, std::string>> details_of(const RunEvent& event);

// The first `most` bytes, or fewer so that no character is torn, and a mark where text was cut.
std::string shortened(std::string text, std::size_t most);

// Seconds since 1970 of its "time".
std::optional<double> time_of(const RunEvent& event);
// "2026-03-01T12:00:00.123Z" -> "2026-03-01 12:00:00"
std::string short_time(std::string time);

}  // namespace trireme
