#include "model/layers/deferred_gradients.h"

#include "model/layers/linear.h"

namespace trireme {

void DeferredGradients::add(const ExecContext& ctx, const Linear& linear, Tensor dy, Tensor dsum,
                            Tensor x) {
  for (const Tensor& tensor : {dy, dsum, x}) {
    // Addresses in arenas of a planning stream are meaningless.
    require(!ctx.stream.executes() || !ctx.scratch.holds(tensor),
            "an input of a deferred gradient is in scratch, which does not outlive the call");
  }
  entries_.push_back({&linear, dy, dsum, x});
}

void DeferredGradients::compute(ExecContext& ctx) {
  for (const Entry& entry : entries_) {
    entry.linear->add_gradients(ctx, entry.dy, entry.dsum, entry.x);
  }
  entries_.clear();
}

}  // namespace trireme
