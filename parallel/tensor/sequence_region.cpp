#include "parallel/tensor/sequence_region.h"

namespace trireme {

Tensor SequenceRegion::gathered(ExecContext& ctx, Arena& into, Tensor part) const {
  if (!splits_tokens()) return part;
  const Tensor all = into.take({part.rows() * ranks().size(), part.width()}, part.dtype);
  ranks().all_gather(ctx.stream, all, part);
  return all;
}

Tensor SequenceRegion::scattered(ExecContext& ctx, Arena& into, Tensor all) const {
  if (!splits_tokens()) return all;
  const int size = ranks().size();
  require(all.rows() % size == 0, all.rows(), " tokens do not divide by ", size, " ranks");
  const Tensor part = into.take({all.rows() / size, all.width()}, all.dtype);
  ranks().reduce_scatter(ctx.stream, part, all);
  return part;
}

Tensor SequenceRegion::enter(ExecContext& ctx, Arena& into, Tensor x) {
  return gathered(ctx, into, x);
}

Tensor SequenceRegion::leave(ExecContext& ctx, Arena& into, Tensor partial) {
  return scattered(ctx, into, partial);
}

Tensor SequenceRegion::leave_backward(ExecContext& ctx, Tensor dy) {
  return gathered(ctx, ctx.lasting(), dy);
}

Tensor SequenceRegion::start_enter_backward(ExecContext& ctx, Tensor partial) {
  return scattered(ctx, ctx.scratch, partial);
}

}  // namespace trireme
