#pragma once
#include <cstdint>
#include <vector>

#include "trainer/tools/plan/estimate/op_time.h"

namespace trireme {

// Times of a part of the model (PartOps).
struct PartTimes {
  ListTime forward, backward, backward_input;
  ListTime finish, update, publish;
  // Between the device and the host, in each direction.
  MessageTime saved;  // of a micro-batch: activations, if they are offloaded
  MessageTime state;  // of a step: masters and optimizer state, if they are offloaded
};

// Times of all parts of a step. They do not depend on the schedule, nor on how many layers a stage
// has.
struct StepTimes {
  std::vector<PartTimes> kinds;  // by StepOps::kinds
  std::vector<std::size_t> kind_of;
  PartTimes first, last;
  double transfer = 0;           // seconds of a micro-batch's activations between two stages
  double boundary_bytes = 0;     // of these
  double tied = 0;               // seconds of the tied table's all-reduce between the ends
  bool splits_backward = false;  // backward_input is known
  bool overlaps_data = true;
};
// Seconds in which a micro-batch's activations move between two stages; 0 without a pipeline.
double transfer_seconds(double boundary_bytes, const Workload& work, const Network& network);
// Those of one part, of a block or of an end.
PartTimes part_times(const PartOps& part, const Workload& work, const DeviceProfile& device,
                     bool is_block);
// Of the tied table's all-reduce, with the first stage's ops.
double tied_seconds(const PartOps& first, const Workload& work, const Network& network);
StepTimes step_times(const StepOps& ops, const Workload& work, const DeviceProfile& device);

// Costs of one pipeline stage.
struct StageCosts {
  std::int64_t layers = 0;
  // Of a micro-batch.
  ListTime forward, backward;
  double input_half = 0;  // seconds of the input-gradient half of the backward
  MessageTime data = {};  // ZeRO-2 and 3: messages of the data axis
  // Their exposed seconds, within those of forward and backward.
  double forward_data = 0, backward_data = 0;
  MessageTime saved = {};  // offloaded in the forward, and fetched in the backward
  // Of a step.
  MessageTime reduced = {};    // ZeRO-0 and 1: gradient reduction during the last backward
  MessageTime finished = {};   // completes the reduction after it
  MessageTime published = {};  // gather of updated weights
  double update = 0;           // seconds of the optimizer, and of ops that complete the gradients
  MessageTime state = {};      // fetched and offloaded during the update
};

// The layers of a pipeline stage.
struct StageLayers {
  std::vector<std::int64_t> of_kind;  // number of layers of each of StepOps::kinds
  bool is_first = false, is_last = false;
  auto operator<=>(const StageLayers&) const = default;
};
StageCosts stage_costs(const StepTimes& times, const Workload& work, const Network& network,
                       const StageLayers& layers);

}  // namespace trireme
