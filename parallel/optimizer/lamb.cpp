#include "model/ops/direction.h"
#include "model/ops/norm_ratio.h"
#include "parallel/optimizer/optimizers.h"
#include "parallel/optimizer/param_norms.h"

namespace trireme {
namespace {

constexpr std::array kLambStates{"lamb.m", "lamb.v"};

class LambOptimizer final : public Optimizer {
 public:
  LambOptimizer(const OptimizerOptions& options, UpdateRanks ranks)
      : options_(options), windows_(options), norms_(ranks) {}

  std::vector<State> state(const ParamSpec&, DType accumulator) const override {
    return states_of(kLambStates, windows_.state_dtype(accumulator));
  }
  void prepare(const ParamStore& params, std::span<const ParamShard> shards,
               Arena& workspace) override {
    windows_.prepare(shards, workspace);
    norms_.prepare(params, workspace);
  }
  void update(const UpdateStep& step, std::span<const ParamShard> shards) override {
    for (const ParamShard& shard : shards) turn_into_directions(step, shard);
    norms_.measure(step, shards);
    for (const Param* param : norms_.params()) {
      const ParamNorms::Norms norms = norms_.of(*param);
      ops::trust_ratio(step.stream, norms.ratio, norms.weight, norms.direction, {}, {});
    }
    for (const ParamShard& shard : shards) {
      const ops::DirectionStep how{
          .rate = step.learning_rate,
          .ratio = shard.param->spec.decay ? norms_.of(*shard.param).ratio : Tensor{}};
      windows_.each(step, shard, {}, Windows::Writes::kWeights, [&](const UpdateTensors& tensors) {
        ops::apply_direction(step.stream, tensors, step.grad_scale, how);
      });
    }
  }

 private:
  void turn_into_directions(const UpdateStep& step, const ParamShard& shard) const {
    const ops::AdamDirection how{.beta1 = options_.beta1,
                                 .beta2 = options_.beta2,
                                 .epsilon = options_.eps,
                                 .weight_decay = weight_decay_of(options_, shard.param->spec),
                                 .step = step.update};
    windows_.each(step, shard, kLambStates, Windows::Writes::kState,
                  [&](const UpdateTensors& tensors) {
                    ops::adam_direction(step.stream, tensors, step.grad_scale, how);
                  });
  }

  OptimizerOptions options_;
  Windows windows_;
  ParamNorms norms_;
};

}  // namespace

// LAMB (You et al. 2020), as NVIDIA's FusedLAMB: with bias correction; the layer-wise rate is
// |weight| / |update|.
NamedOptimizer lamb_optimizer() {
  return {.name = "LAMB",
          .make = make_as<LambOptimizer>,
          .reads = {"beta1", "beta2", "eps"},
          .defaults = {.beta2 = 0.999, .eps = 1e-6},
          .spans_ranks = true};
}

}  // namespace trireme
