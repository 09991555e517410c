#pragma once
#include <vector>

#include "model/params/param_store.h"
#include "parallel/comm/communicator.h"
#include "parallel/data/norm_chunks.h"

namespace trireme {

// Squared gradients of the whole model as partial sums over NormChunks. Added in their order they
// give the same norm for every layout.
class GradNorm {
 public:
  // The ranks that together hold the model, ZeRO shards and experts included.
  struct Ranks {
    Communicator& model;
    bool is_primary_of_dense = true;  // false: another of these ranks has the same dense shard
  };
  // `held` is this rank's shard of the parameters in `places`; it is laid out and outlives this
  // object. Allocates the partial sums in `workspace`.
  GradNorm(const ParamStore& held, const NormChunks& places, const Ranks& ranks, Arena& workspace);

  // Computes and exchanges the partial sums, [chunks] float64.
  Tensor squares(Stream& stream) const;

 private:
  struct Run {
    Tensor grad;         // [elements], contiguous in a unit
    std::int64_t chunk;  // elements of a chunk
    std::int64_t first;  // index of its first partial sum
    std::int64_t into;   // offset in the first chunk
  };
  Communicator& ranks_;
  std::vector<Run> runs_;
  Tensor partials_;
};

}  // namespace trireme
