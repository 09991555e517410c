#include "parallel/tensor/sequence_region.h"

namespace trireme {

Tensor SequenceRegion::gathered(Run& run, Arena& into, Tensor part) const {
  if (!splits_tokens()) return part;
  const Tensor all = into.take({part.rows() * ranks().size(), part.width()}, part.dtype);
  ranks().all_gather(run.stream, all, part);
  return all;
}

Tensor SequenceRegion::scattered(Run& run, Arena& into, Tensor all) const {
  if (!splits_tokens()) return all;
  const int size = ranks().size();
  require(all.rows() % size == 0, all.rows(), " tokens do not divide by ", size, " ranks");
  const Tensor part = into.take({all.rows() / size, all.width()}, all.dtype);
  ranks().reduce_scatter(run.stream, part, all);
  return part;
}

Tensor SequenceRegion::enter(Run& run, Arena& into, Tensor x) {
  return gathered(run, into, x);
}

Tensor SequenceRegion::leave(Run& run, Arena& into, Tensor partial) {
  return scattered(run, into, partial);
}

Tensor SequenceRegion::leave_backward(Run& run, Tensor dy) {
  return gathered(run, run.lasting(), dy);
}

Tensor SequenceRegion::start_enter_backward(Run& run, Tensor partial) {
  return scattered(run, run.scratch, partial);
}

}  // namespace trireme
