#pragma once
#include <nlohmann/json.hpp>
#include <vector>

#include "trainer/tools/report/run_data.h"

namespace trireme {

// Number of run colors (--run-0 ... in style.css); further runs reuse them.
inline constexpr std::size_t kRunColors = 8;

// Input of curves.js: {"first_step", "last_step", "runs": [{name, color}],
// "marks": [{step, text, kind, run}], "curves": [{title, format, wide, log_y, from_zero,
// series: [{run, name, color, dash, smooth, x: [steps], y: [values or null],
// mean: [values or null]}]}]}. A mark's kind is failure, restart, spike or checkpoint. Curves
// without points are omitted.
nlohmann::ordered_json chart_data(const std::vector<RunData>& runs);

}  // namespace trireme
