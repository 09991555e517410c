#include "model/layers/deferred_gradients.h"

#include "model/layers/linear.h"

namespace trireme {

void DeferredGradients::add(const Run& run, const Linear& linear, Tensor dy, Tensor dsum,
                            Tensor x) {
  for (const Tensor& tensor : {dy, dsum, x}) {
    // Addresses in arenas of a planning stream are meaningless.
    require(!run.stream.executes() || !run.scratch.holds(tensor),
            "an input of a deferred gradient is in scratch, which does not outlive the call");
  }
  entries_.push_back({&linear, dy, dsum, x});
}

void DeferredGradients::compute(Run& run) {
  for (const Entry& entry : entries_) {
    entry.linear->add_gradients(run, entry.dy, entry.dsum, entry.x);
  }
  entries_.clear();
}

}  // namespace trireme
