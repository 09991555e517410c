#include "trainer/tools/plan/stage_costs.h"

#include <numeric>

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
                       const StageLayers& layers) {
  const std::int64_t count =
      std::accumulate(layers.of_kind.begin(), layers.of_kind.end(), std::int64_t{0});
  const auto blocks = static_cast<double>(count);
  const Network& network = device.network;
  const auto time = [&](const PartOps::List& list) { return list_time(list, work, device); };
  // Of all blocks.
  const auto sum_of_blocks = [&](PartOps::List PartOps::*list) {
    ListTime total;
    for (std::size_t kind = 0; kind < ops.kinds.size(); ++kind) {
      total += time(ops.kinds[kind].*list) * static_cast<double>(layers.of_kind[kind]);
    }
    return total;
  };
  const auto sum = [&](PartOps::List PartOps::*list) {
    ListTime total = sum_of_blocks(list);
    if (layers.is_first) total += time(ops.first.*list);
    if (layers.is_last) total += time(ops.last.*list);
    return total;
  };
  const ListTime finish = sum(&PartOps::finish);
  StageCosts costs{.layers = count,
                   .forward = sum(&PartOps::forward),
                   .backward = sum(&PartOps::backward),
                   .finished = finish.data,
                   .update = finish.streams + sum(&PartOps::update).seconds()};
  const ListTime forward = sum_of_blocks(&PartOps::forward),
                 backward = sum_of_blocks(&PartOps::backward);
  costs.input_half = costs.backward.seconds();
  if (!ops.block().backward_input.empty()) {
    costs.input_half -= backward.seconds() - sum_of_blocks(&PartOps::backward_input).seconds();
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
  const auto exposed = [&](const ListTime& all) {
    if (count == 0) return 0.0;
    return waiting(ops.overlaps_data, network, blocks, all.seconds() / blocks,
                   all.data.seconds / blocks);
  };
  costs.forward.waiting += exposed(forward);
  costs.backward.waiting += exposed(backward);
  costs.data = forward.data;
  costs.data += backward.data;
  return costs;
}

}  // namespace trireme
