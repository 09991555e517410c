#pragma once
#include <cstdint>
#include <vector>

#include "trainer/tools/plan/data_axis.h"
#include "trainer/tools/plan/operation_time.h"

namespace trireme {

// Costs of one micro-batch on one pipeline stage.
struct StageCosts {
  std::int64_t layers = 0;
  double parameters = 0;  // on one tensor-parallel rank
  ListTime forward, backward;
  double input_half = 0;   // seconds of the input-gradient half of the backward
  DataMessages data = {};  // ZeRO-2 and 3 communication per micro-batch
};

// Costs of a stage of `layers` blocks.
StageCosts stage_costs(const Workload& work, const DeviceProfile& device, std::int64_t layers,
                       bool is_first, bool is_last);

}  // namespace trireme
