#pragma once
#include <cstdint>

#include "trainer/tools/plan/op_time.h"

namespace trireme {

// Costs of one pipeline stage.
struct StageCosts {
  std::int64_t layers = 0;
  // Of a micro-batch.
  ListTime forward, backward;
  double input_half = 0;  // seconds of the input-gradient half of the backward
  MessageTime data = {};  // ZeRO-2 and 3: messages of the data axis
  // Of a step.
  MessageTime reduced = {};    // ZeRO-0 and 1: gradient reduction during the last backward
  MessageTime finished = {};   // completes the reduction after it
  MessageTime published = {};  // gather of updated weights
  double update = 0;           // seconds of the optimizer, and of ops that complete the gradients
};

// Costs of a stage of `layers` blocks.
StageCosts stage_costs(const StepOps& ops, const Workload& work, const DeviceProfile& device,
                       std::int64_t layers, bool is_first, bool is_last);

}  // namespace trireme
