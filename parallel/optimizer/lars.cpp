#include "model/ops/momentum.h"
#include "model/ops/norm_ratio.h"
#include "parallel/optimizer/optimizers.h"
#include "parallel/optimizer/param_norms.h"

namespace trireme {
namespace {

constexpr std::array kLarsStates{"lars.momentum"};

class LarsOptimizer final : public Optimizer {
 public:
  LarsOptimizer(const OptimizerOptions& options, UpdateRanks ranks)
      : options_(options), windows_(options), norms_(ranks) {}

  std::vector<State> state(const ParamSpec&, DType accumulator) const override {
    return states_of(kLarsStates, windows_.state_dtype(accumulator));
  }
  void prepare(const ParamStore& params, std::span<const ParamShard> shards,
               Arena& workspace) override {
    windows_.prepare(shards, workspace);
    norms_.prepare(params, workspace);
  }
  void update(const UpdateStep& step, std::span<const ParamShard> shards) override {
    norms_.measure(step, shards);
    for (const Param* param : norms_.params()) {
      const ParamNorms::Norms norms = norms_.of(*param);
      ops::trust_ratio(step.stream, norms.ratio, norms.weight, norms.direction, step.grad_scale,
                       {options_.trust_coefficient, weight_decay_of(options_, param->spec)});
    }
    for (const ParamShard& shard : shards) {
      const ops::Momentum how{
          .learning_rate = 1,
          .momentum = options_.momentum,
          .weight_decay = weight_decay_of(options_, shard.param->spec),
          .into = step.learning_rate,
          .rate = shard.param->spec.decay ? norms_.of(*shard.param).ratio : Tensor{}};
      windows_.each(step, shard, kLarsStates, Windows::Writes::kBoth,
                    [&](const UpdateTensors& tensors) {
                      ops::sgd_step(step.stream, tensors, step.grad_scale, how);
                    });
    }
  }

 private:
  OptimizerOptions options_;
  Windows windows_;
  ParamNorms norms_;
};

}  // namespace

// LARS (You, Gitman, Ginsburg 2017, algorithm 1): momentum accumulates the gradient times learning
// rate times trust_coefficient |weight| / (|gradient| + weight_decay |weight|).
NamedOptimizer lars_optimizer() {
  return {.name = "LARS",
          .make = make_as<LarsOptimizer>,
          .reads = {"momentum", "trust_coefficient"},
          .spans_ranks = true};
}

}  // namespace trireme
