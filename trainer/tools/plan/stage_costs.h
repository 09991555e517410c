#pragma once
#include <cstdint>
#include <vector>

#include "trainer/tools/plan/data_axis.h"
#include "trainer/tools/plan/operation_time.h"

namespace trireme {

// What the actions of one pipeline stage take of its rank.
struct StageCosts {
  std::int64_t layers = 0;
  double parameters = 0;  // that a tensor rank holds
  ListTime forward, backward;
  double input_half = 0;   // seconds of the backward, where it comes in halves
  DataMessages data = {};  // with every micro-batch
};

// A stage of `layers` blocks.
StageCosts stage_costs(const Workload& work, const DeviceProfile& device, std::int64_t layers,
                       bool is_first, bool is_last);

}  // namespace trireme
