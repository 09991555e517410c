#include "parallel/comm/planned_communicator.h"

#include "parallel/comm/shapes.h"

namespace trireme {

void PlannedCommunicator::count(const Stream& stream, const Tensor& tensor, double share) {
  require(!stream.executes(), "a planned communicator cannot move tensors");
  if (tensor.count() == 0) return;
  sent_.bytes += share * static_cast<double>(tensor.bytes());
  ++sent_.calls;
}

void PlannedCommunicator::all_reduce(Stream& stream, Tensor tensor, Reduce) {
  count(stream, tensor, 2 * others());
}

void PlannedCommunicator::all_gather(Stream& stream, Tensor whole, Tensor part) {
  comm::check_parts("all_gather", *this, whole, part);
  count(stream, whole, others());
}

void PlannedCommunicator::reduce_scatter(Stream& stream, Tensor part, Tensor whole) {
  comm::check_parts("reduce_scatter", *this, whole, part);
  count(stream, whole, others());
}

void PlannedCommunicator::all_to_all(Stream& stream, Tensor received, Tensor sent) {
  comm::check_blocks("all_to_all", *this, received, sent);
  count(stream, sent, others());
}

void PlannedCommunicator::broadcast(Stream& stream, Tensor tensor, int root) {
  comm::check_root("broadcast", *this, root);
  count(stream, tensor, root == rank_ ? 1 : 0);
}

void PlannedCommunicator::barrier(Stream& stream) {
  require(!stream.executes(), "a planned communicator cannot synchronize");
}

Transfer PlannedCommunicator::start_send(Stream& stream, Tensor tensor, int to) {
  comm::check_peer("send", *this, to);
  count(stream, tensor, 1);
  return {};
}

Transfer PlannedCommunicator::start_receive(Stream& stream, Tensor, int from) {
  comm::check_peer("receive", *this, from);
  require(!stream.executes(), "a planned communicator cannot receive");
  return {};
}

}  // namespace trireme
