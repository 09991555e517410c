#pragma once
#include <nlohmann/json.hpp>

#include "trainer/report/run_data.h"

namespace trireme {

// What curves.js draws: {"first_step", "last_step", "marks": [{step, text, bad}],
// "curves": [{title, format, wide, log_y, from_zero, series: [{name, color, smooth,
// x: [steps], y: [values or null], mean: [values or null]}]}]}. Curves without any
// point are left out.
nlohmann::ordered_json chart_data(const RunData& run);

}  // namespace trireme
