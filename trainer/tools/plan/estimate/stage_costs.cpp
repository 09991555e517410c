#include "trainer/tools/plan/estimate/stage_costs.h"

#include <algorithm>
#include <numeric>

#include "model/base/error.h"

namespace trireme {
namespace {

// Exposed time of `layers` blocks that each compute for `computing` and communicate for `sending`
// seconds: a block's communication overlaps the block before it, the first block's nothing.
double waiting(bool overlaps, const Network& network, double layers, double computing,
               double sending) {
  if (!overlaps || !network.overlaps) return layers * sending;
  return sending + (layers - 1) * network.waiting(sending, computing);
}

MessageTime to_host(const DeviceProfile& device, double bytes) {
  if (bytes <= 0) return {};
  if (device.host.bandwidth <= 0) {
    throw ConfigError(say("the profile of ", device.name,
                          " has no \"host\" link, which offload needs; write it again with "
                          "trireme doctor --calibrate"));
  }
  return {bytes / (device.host.bandwidth * device.host.reached), bytes};
}

}  // namespace

double tied_seconds(const PartOps& first, const Workload& work, const Network& network) {
  double seconds = 0;
  for (const PlannedOp& op : first.finish) {
    if (op.kind != PlannedOp::Kind::kMessage || op.name != std::string_view("pipeline_ends")) {
      continue;
    }
    seconds += collective_seconds(network, op.collective, group_of(op.name, work), op.bytes);
  }
  return seconds;
}

double transfer_seconds(double boundary_bytes, const Workload& work, const Network& network) {
  if (work.mesh.pipeline == 1) return 0;
  return collective_seconds(network, Collective::kSend, group_of("pipeline_ends", work),
                            boundary_bytes);
}

PartTimes part_times(const PartOps& part, const Workload& work, const DeviceProfile& device,
                     bool is_block) {
  const bool offloads = device.device().is_cuda();
  // Ranks that share memory keep one copy of the weights.
  const bool publishes = !shares_memory(device.network, group_of("data_shard", work));
  const auto time = [&](const PartOps::List& list) { return list_time(list, work, device); };
  PartTimes times{.forward = time(part.forward),
                  .backward = time(part.backward),
                  .backward_input = time(part.backward_input),
                  .finish = time(part.finish),
                  .update = time(part.update),
                  .publish = publishes ? time(part.publish) : ListTime(),
                  .saved = {},
                  .state = {}};
  if (offloads && is_block && work.spec.activation_checkpoint.offload) {
    times.saved = to_host(device, part.saved_bytes);
  }
  if (offloads && work.spec.optimizer.offload) {
    times.state = to_host(device, part.state_bytes + part.averaged_bytes);
  }
  return times;
}

StepTimes step_times(const StepOps& ops, const Workload& work, const DeviceProfile& device) {
  StepTimes times{.kinds = {},
                  .kind_of = ops.kind_of,
                  .first = part_times(ops.first, work, device, false),
                  .last = part_times(ops.last, work, device, false),
                  .transfer = transfer_seconds(ops.boundary_bytes, work, device.network),
                  .boundary_bytes = ops.boundary_bytes,
                  .tied = tied_seconds(ops.first, work, device.network),
                  .splits_backward = !ops.block().backward_input.empty(),
                  .overlaps_data = ops.overlaps_data};
  for (const PartOps& kind : ops.kinds) times.kinds.push_back(part_times(kind, work, device, true));
  return times;
}

StageCosts stage_costs(const StepTimes& times, const Workload& work, const Network& network,
                       const StageLayers& layers) {
  const std::int64_t count =
      std::accumulate(layers.of_kind.begin(), layers.of_kind.end(), std::int64_t{0});
  const auto blocks = static_cast<double>(count);
  // Of all blocks.
  const auto sum_of_blocks = [&](auto PartTimes::*member) {
    auto total = times.first.*member * 0;
    for (std::size_t kind = 0; kind < times.kinds.size(); ++kind) {
      total += times.kinds[kind].*member * static_cast<double>(layers.of_kind[kind]);
    }
    return total;
  };
  const auto sum = [&](auto PartTimes::*member) {
    auto total = sum_of_blocks(member);
    if (layers.is_first) total += times.first.*member;
    if (layers.is_last) total += times.last.*member;
    return total;
  };
  const ListTime finish = sum(&PartTimes::finish);
  StageCosts costs{.layers = count,
                   .forward = sum(&PartTimes::forward),
                   .backward = sum(&PartTimes::backward),
                   .saved = sum(&PartTimes::saved),
                   .finished = finish.data,
                   .published = sum(&PartTimes::publish).data,
                   .update = finish.streams + sum(&PartTimes::update).seconds(),
                   .state = sum(&PartTimes::state)};
  const ListTime forward = sum_of_blocks(&PartTimes::forward),
                 backward = sum_of_blocks(&PartTimes::backward);
  costs.input_half = costs.backward.seconds();
  if (times.splits_backward) {
    costs.input_half -= backward.seconds() - sum_of_blocks(&PartTimes::backward_input).seconds();
  }
  // A block's activations are copied during the computation of its neighbors.
  costs.forward.offload += std::max(0.0, costs.saved.seconds - forward.seconds());
  costs.backward.offload += std::max(0.0, costs.saved.seconds - backward.seconds());
  if (work.spec.parallelism.zero < 2) {
    costs.reduced = costs.forward.data;
    costs.reduced += costs.backward.data;
    return costs;
  }
  // The backward's all-gathers and reductions share the links and overlap the same computation.
  const auto exposed = [&](const ListTime& all) {
    if (count == 0) return 0.0;
    return waiting(times.overlaps_data, network, blocks, all.seconds() / blocks,
                   all.data.seconds / blocks);
  };
  costs.forward_data = exposed(forward);
  costs.backward_data = exposed(backward);
  costs.forward.waiting += costs.forward_data;
  costs.backward.waiting += costs.backward_data;
  costs.data = forward.data;
  costs.data += backward.data;
  return costs;
}

}  // namespace trireme
