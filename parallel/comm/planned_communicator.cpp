#include "parallel/comm/planned_communicator.h"

#include "parallel/comm/shapes.h"

namespace trireme {

void PlannedCommunicator::record(const Stream& stream, Collective collective, const Tensor& tensor,
                                 double share) {
  require(!stream.executes(), "a planned communicator cannot move tensors");
  if (tensor.count() == 0) return;
  const auto bytes = static_cast<double>(tensor.bytes());
  stream.record({.kind = PlannedOp::Kind::kMessage,
                 .name = group_,
                 .element = size_of(tensor.dtype),
                 .bytes = bytes,
                 .collective = collective});
  sent_.bytes += share * bytes;
  ++sent_.calls;
}

void PlannedCommunicator::all_reduce(Stream& stream, Tensor tensor, Reduce) {
  record(stream, Collective::kAllReduce, tensor, 2 * others());
}

void PlannedCommunicator::all_gather(Stream& stream, Tensor whole, Tensor part) {
  comm::check_parts("all_gather", *this, whole, part);
  record(stream, Collective::kAllGather, whole, others());
}

void PlannedCommunicator::reduce_scatter(Stream& stream, Tensor part, Tensor whole) {
  comm::check_parts("reduce_scatter", *this, whole, part);
  record(stream, Collective::kReduceScatter, whole, others());
}

void PlannedCommunicator::all_to_all(Stream& stream, const RankBlocks& received,
                                     const RankBlocks& sent) {
  comm::check_blocks("all_to_all", *this, received, sent);
  record(stream, Collective::kAllToAll, sent.tensor.slice(0, sent.count()), others());
}

void PlannedCommunicator::broadcast(Stream& stream, Tensor tensor, int root) {
  comm::check_root("broadcast", *this, root);
  record(stream, Collective::kBroadcast, tensor, root == rank_ ? 1 : 0);
}

void PlannedCommunicator::barrier(Stream& stream) {
  require(!stream.executes(), "a planned communicator cannot synchronize");
}

Transfer PlannedCommunicator::start_send(Stream& stream, Tensor tensor, int to) {
  comm::check_peer("send", *this, to);
  record(stream, Collective::kSend, tensor, 1);
  return {};
}

Transfer PlannedCommunicator::start_receive(Stream& stream, Tensor, int from) {
  comm::check_peer("receive", *this, from);
  require(!stream.executes(), "a planned communicator cannot receive");
  return {};
}

}  // namespace trireme
