#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "trainer/tools/report/trace_data.h"

namespace trireme {

// Input of timeline.js: {"length", "names": [text], "lanes": [{"name", "spans": [[start, end,
// index of name, kind]]}]}, in milliseconds. Kinds: forward, backward, weights, message, idle,
// part.
nlohmann::ordered_json timeline_data(const TracedStep& traced);

// HTML section of timeline `number` with a table of the slowest ranks.
std::string timeline_html(const TracedStep& traced, std::size_t number);

}  // namespace trireme
