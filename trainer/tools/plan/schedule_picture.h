#pragma once
#include <string>
#include <vector>

#include "parallel/pipeline/simulate.h"
#include "trainer/tools/plan/memory_bars.h"

namespace trireme {

// What a rank does in each of `columns` equal parts of the makespan: F, B, I (a backward's input
// half) or W, or a dot for waiting. Where a column holds several, columns take turns, so that each
// letter's share of the line is its share of the time.
std::string busy_columns(const std::vector<Action>& actions,
                         const std::vector<Timeline::Span>& spans, double makespan, int columns);

// A row for each rank of the pipeline; of many ranks the first, the last and some between them.
std::string schedule_picture(const Schedule& schedule, const Timeline& timeline,
                             const Canvas& canvas);

}  // namespace trireme
