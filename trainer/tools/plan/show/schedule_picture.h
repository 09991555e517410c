#pragma once
#include <string>
#include <vector>

#include "parallel/pipeline/simulate.h"
#include "trainer/tools/plan/show/memory_bars.h"

namespace trireme {

// Action of a rank in each of `columns` equal parts of the makespan: F, B, I (input gradients), W
// (weight gradients), or a dot for idle. If a column has several actions, neighboring columns show
// them in turn, so that the number of each letter is proportional to its time.
std::string busy_columns(const std::vector<Action>& actions,
                         const std::vector<Timeline::Span>& spans, double makespan, int columns);

// One row per pipeline rank; of many ranks a sample with both ends.
std::string schedule_picture(const Schedule& schedule, const Timeline& timeline,
                             const Canvas& canvas);

}  // namespace trireme
