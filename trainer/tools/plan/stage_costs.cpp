#include "trainer/tools/plan/stage_costs.h"

namespace trireme {
namespace {

// Exposed time of `layers` blocks that each compute for `computing` and communicate for `sending`
// seconds: a block's communication overlaps the block before it, the first block's nothing.
double waiting(bool overlaps, const Network& network, double layers, double computing,
               double sending) {
  if (!overlaps || !network.overlaps) return layers * sending;
  return sending + (layers - 1) * network.waiting(sending, computing);
}

}  // namespace

StageCosts stage_costs(const StepOps& ops, const Workload& work, const DeviceProfile& device,
                       std::int64_t layers, bool is_first, bool is_last) {
  const auto blocks = static_cast<double>(layers);
  const Network& network = device.network;
  const auto time = [&](const PartOps::List& list) { return list_time(list, work, device); };
  const auto sum = [&](PartOps::List PartOps::*list) {
    ListTime total = time(ops.block.*list) * blocks;
    if (is_first) total += time(ops.first.*list);
    if (is_last) total += time(ops.last.*list);
    return total;
  };
  const ListTime finish = sum(&PartOps::finish);
  StageCosts costs{.layers = layers,
                   .forward = sum(&PartOps::forward),
                   .backward = sum(&PartOps::backward),
                   .finished = finish.data,
                   .update = finish.streams + sum(&PartOps::update).seconds()};
  const ListTime forward = time(ops.block.forward), backward = time(ops.block.backward);
  costs.input_half = costs.backward.seconds();
  if (!ops.block.backward_input.empty()) {
    costs.input_half -= blocks * (backward.seconds() - time(ops.block.backward_input).seconds());
  }
  // Ranks that share memory keep one copy of the weights.
  if (!shares_memory(network, group_of("data_shard", work))) {
    costs.published = sum(&PartOps::publish).data;
  }
  if (work.spec.parallelism.zero < 2) {
    costs.reduced = costs.forward.data;
    costs.reduced += costs.backward.data;
    return costs;
  }
  // The backward's all-gathers and reductions share the links and overlap the same computation.
  const auto exposed = [&](const ListTime& block) {
    return waiting(ops.overlaps_data, network, blocks, block.seconds(), block.data.seconds);
  };
  costs.forward.waiting += exposed(forward);
  costs.backward.waiting += exposed(backward);
  costs.data = forward.data * blocks;
  costs.data += backward.data * blocks;
  return costs;
}

}  // namespace trireme
