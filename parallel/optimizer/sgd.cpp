#include "model/ops/momentum.h"
#include "parallel/optimizer/optimizers.h"

namespace trireme {
namespace {

constexpr std::array kSgdStates{"sgd.momentum"};

class SgdOptimizer final : public Optimizer {
 public:
  SgdOptimizer(const OptimizerOptions& options, UpdateRanks)
      : options_(options), windows_(options) {}

  std::vector<State> state(const ParamSpec&, DType accumulator) const override {
    return states_of(kSgdStates, windows_.state_dtype(accumulator));
  }
  void prepare(const ParamStore&, std::span<const ParamShard> shards, Arena& workspace) override {
    windows_.prepare(shards, workspace);
  }
  void update(const UpdateStep& step, std::span<const ParamShard> shards) override {
    for (const ParamShard& shard : shards) {
      const ops::Momentum how{.learning_rate = step.learning_rate,
                              .momentum = options_.momentum,
                              .weight_decay = weight_decay_of(options_, shard.param->spec),
                              .into = 1,
                              .nesterov = options_.nesterov};
      windows_.each(step, shard, kSgdStates, Windows::Writes::kBoth,
                    [&](const UpdateTensors& tensors) {
                      ops::sgd_step(step.stream, tensors, step.grad_scale, how);
                    });
    }
  }

 private:
  OptimizerOptions options_;
  Windows windows_;
};

}  // namespace

// SGD with momentum and weight decay added to the gradient, as torch.optim.SGD; see ops::sgd_step.
NamedOptimizer sgd_optimizer() {
  return {.name = "SGD", .make = make_as<SgdOptimizer>, .reads = {"momentum", "nesterov"}};
}

}  // namespace trireme
