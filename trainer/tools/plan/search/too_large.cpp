#include "trainer/tools/plan/search/too_large.h"

#include <algorithm>

namespace trireme {

TooLargeLayouts::Kind TooLargeLayouts::kind_of(const RunConfig& layout) {
  const ParallelismConfig& p = layout.parallelism;
  return {p.tensor,   p.sequence,       context_of(p), p.pipeline,
          p.schedule, p.virtual_stages, p.zero,        p.expert};
}

TooLargeLayouts::Kind TooLargeLayouts::kind_of_family(const RunConfig& family) {
  RunConfig any = family;
  any.parallelism.schedule.clear();
  any.parallelism.virtual_stages = 0;
  return kind_of(any);
}

TooLargeLayouts::Sizes TooLargeLayouts::sizes_of(const RunConfig& layout) {
  // Recomputation modes are in order of less memory.
  return {.micro_batch = layout.training.local_batch_size,
          .kept = -static_cast<int>(layout.activation_checkpoint.mode),
          .replicate = layout.parallelism.data_replicate};
}

void TooLargeLayouts::add(const RunConfig& layout, const Kind& kind) {
  known_[kind].push_back(sizes_of(layout));
}

bool TooLargeLayouts::has_smaller(const RunConfig& layout, const Kind& kind) const {
  const auto found = known_.find(kind);
  if (found == known_.end()) return false;
  const Sizes own = sizes_of(layout);
  return std::any_of(found->second.begin(), found->second.end(), [&](const Sizes& other) {
    // Without shard groups their buffers are missing.
    const bool has_larger_state =
        own.replicate == other.replicate ||
        (own.replicate > other.replicate && layout.parallelism.data_shard > 1);
    return own.micro_batch >= other.micro_batch && own.kept >= other.kept && has_larger_state;
  });
}

}  // namespace trireme
