#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/params/param_store.h"
#include "parallel/comm/communicator.h"
#include "parallel/optimizer/optimizer_options.h"

namespace trireme {

class Staging;

// Arguments of one update.
struct UpdateStep {
  Stream& stream;
  Tensor grad_scale = {};  // [1] in the accumulator dtype, multiplies the gradients
  double learning_rate = 0;
  std::int64_t update = 0;  // from 1
  // Streams masters and states that are in host memory while the values are on a device; otherwise
  // null.
  Staging* staging = nullptr;
  std::uint64_t seed = 0;  // of stochastic rounding
};

// The groups among which one parameter is sharded.
struct UpdateRanks {
  Communicator& shard;   // ranks that own other shards of the same box
  Communicator& tensor;  // ranks that hold other boxes (ParamSpec::cut)
};

// An optimizer. All shards of a step are known beforehand, so that properties of a whole parameter
// (a norm, a matrix) can be computed across ranks.
class Optimizer {
 public:
  Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  // A tensor that persists across steps; initially zero.
  struct State {
    std::string name;  // prefix in checkpoints: "adam.m"
    DType dtype;
  };
  // State per element of this parameter, in the order of UpdateTensors::state; may differ between
  // matrices and vectors. `accumulator` is the dtype of the masters.
  virtual std::vector<State> state(const ParamSpec& spec, DType accumulator) const = 0;

  // Called once before the first update. `params` are the parameters of this rank's model shard,
  // declared identically on all ranks of both groups; `shards` are those of all later updates, in
  // any partition. Permanently allocates temporaries in `workspace`.
  virtual void prepare(const ParamStore& params, std::span<const ParamShard> shards,
                       Arena& workspace) = 0;

  // Collective over both groups; may overwrite the gradients. If grad_scale is NaN the update is
  // skipped: values, masters and states are unchanged.
  virtual void update(const UpdateStep& step, std::span<const ParamShard> shards) = 0;
};

// The weight decay of a parameter; 0: none.
inline double weight_decay_of(const OptimizerOptions& options, const ParamSpec& spec) {
  const bool is_embedding = spec.name == "embedding.weight" || spec.name == "position.weight";
  return spec.decay && (options.decay_embeddings || !is_embedding) ? options.weight_decay : 0;
}

// Recomputes the values from the masters as after this update, for a run that resumes from masters.
// Grad_scale and learning_rate of the step are not used.
void publish_masters(const UpdateStep& step, const OptimizerOptions& options,
                     std::span<const ParamShard> shards);

}  // namespace trireme
