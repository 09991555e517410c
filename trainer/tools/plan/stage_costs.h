#pragma once
#include <cstdint>
#include <vector>

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

// The layers of a pipeline stage.
struct StageLayers {
  std::vector<std::int64_t> of_kind;  // number of layers of each of StepOps::kinds
  bool is_first = false, is_last = false;
  auto operator<=>(const StageLayers&) const = default;
};
StageCosts stage_costs(const StepOps& ops, const Workload& work, const DeviceProfile& device,
                       const StageLayers& layers);

}  // namespace trireme
