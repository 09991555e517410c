#include "trainer/tools/plan/stage_costs.h"

#include <algorithm>

namespace trireme {
namespace {

// Exposed time of `layers` blocks that each compute for `computing` and communicate for `sending`
// seconds: a block's communication overlaps the block before it, the first block's nothing.
double waiting(const Workload& work, const Network& network, double layers, double computing,
               double sending) {
  if (!work.traits.overlaps_data || !network.overlaps) return layers * sending;
  return sending + (layers - 1) * network.waiting(sending, computing);
}

std::vector<Operation> input_half(std::vector<Operation> list) {
  list.erase(
      std::remove_if(list.begin(), list.end(), [](const Operation& op) { return op.of_weights; }),
      list.end());
  return list;
}

}  // namespace

StageCosts stage_costs(const Workload& work, const DeviceProfile& device, std::int64_t layers,
                       bool is_first, bool is_last) {
  const OperationLists lists = operations_of(work);
  const auto time = [&](const std::vector<Operation>& list) {
    return list_time(list, work, device);
  };
  const auto blocks = static_cast<double>(layers);
  const Network& network = device.network;
  const ListTime forward = time(lists.forward);
  ListTime backward = time(lists.backward);
  const ListTime again = time(lists.recomputed);
  backward += again;
  StageCosts costs{
      .layers = layers,
      .parameters = blocks * block_parameters(work),
      .forward = forward * blocks,
      .backward = backward * blocks,
      .input_half = blocks * (again.seconds() + time(input_half(lists.backward)).seconds())};
  if (is_first) {
    costs.forward += time(lists.embedding);
    const ListTime tail = time(lists.embedding_backward);
    costs.backward += tail;
    costs.input_half += tail.seconds();
    costs.parameters += embedding_parameters(work);
  }
  if (is_last) {
    costs.forward += time(lists.head);
    costs.parameters += head_parameters(work);
  }
  // The backward's all-gathers and reductions share the links and overlap the same computation.
  double in_backward = 0;
  const auto add = [&](const DataMessages& messages, double times) {
    costs.data.seconds += times * blocks * messages.seconds;
    costs.data.bytes += times * blocks * messages.bytes;
    in_backward += messages.seconds;
  };
  if (work.zero >= 3) {
    const DataMessages gathered = weight_messages(work, network, block_parameters(work));
    costs.forward.waiting += waiting(work, network, blocks, forward.seconds(), gathered.seconds);
    add(gathered, 2);
  }
  if (work.zero >= 2) add(gradient_messages(work, network, block_parameters(work)), 1);
  costs.backward.waiting += waiting(work, network, blocks, backward.seconds(), in_backward);
  costs.input_half = std::min(costs.input_half, costs.backward.seconds());
  return costs;
}

}  // namespace trireme
