#pragma once
#include <algorithm>
#include <array>
#include <span>

#include "model/ops/strided_copy.h"
#include "parallel/optimizer/optimizer.h"
#include "parallel/optimizer/staging.h"

namespace trireme {

// State with these names and one dtype.
inline std::vector<Optimizer::State> states_of(std::span<const char* const> names, DType dtype) {
  std::vector<Optimizer::State> states;
  states.reserve(names.size());
  for (const char* name : names) states.push_back({name, dtype});
  return states;
}

// Stochastic rounding of a part's tensor, "value" or a name of Optimizer::state().
ops::StochasticRounding rounding_of(const UpdateStep& step, const ParamShard& part,
                                    const char* tensor);

// Presents shards to the kernels. bfloat16 state is widened in chunks that fit a cache and rounded
// back stochastically, so that small changes accumulate in the mean; published weights are rounded
// stochastically too if requested. Otherwise the whole shard is one chunk.
class Windows {
 public:
  // What a body writes; it may read everything.
  enum class Writes : std::uint8_t { kState, kWeights, kBoth };

  explicit Windows(const OptimizerOptions& options) : options_(options) {}
  // Allocates workspace for the state of one chunk.
  void prepare(std::span<const ParamShard> shards, Arena& workspace);

  // The dtype in which state is stored.
  DType state_dtype(DType accumulator) const;

  // Calls body(tensors) for all chunks of the shard. `states` are names of Optimizer::state().
  template <class Body>
  void each(const UpdateStep& step, const ParamShard& shard, std::span<const char* const> states,
            Writes writes, const Body& body) const {
    const bool state = writes != Writes::kWeights, weights = writes != Writes::kState;
    each_part(step, shard, chunk_length(shard, writes), /*into=*/0,
              {.master = true, .state = state}, {.master = weights, .state = state},
              [&](const ParamShard& part) {
                const UpdateTensors tensors = open(step, part, states.size(), writes);
                body(tensors);
                close(step, part, states, writes, tensors);
              });
  }

 private:
  bool rounds(const ParamShard& shard, Writes writes) const;
  bool widens(Writes writes) const;
  std::int64_t chunk_length(const ParamShard& shard, Writes writes) const;
  UpdateTensors open(const UpdateStep& step, const ParamShard& part, std::size_t states,
                     Writes writes) const;
  void close(const UpdateStep& step, const ParamShard& part, std::span<const char* const> states,
             Writes writes, const UpdateTensors& tensors) const;

  OptimizerOptions options_;
  std::array<Tensor, UpdateTensors::kMaxStates> wide_;
};

}  // namespace trireme
