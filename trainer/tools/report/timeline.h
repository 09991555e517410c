#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "trainer/tools/report/trace_data.h"

namespace trireme {

// What timeline.js draws: {"length", "names": [text], "lanes": [{"name", "spans": [[start, end,
// name's place, kind]]}]}, in milliseconds. Kinds: forward, backward, weights, message, idle, part.
nlohmann::ordered_json timeline_data(const TracedStep& traced);

// The picture's place on the page, and the ranks that work longest.
std::string timeline_html(const TracedStep& traced, std::size_t number);

}  // namespace trireme
