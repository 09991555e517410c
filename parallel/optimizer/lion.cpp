#include "model/ops/momentum.h"
#include "parallel/optimizer/optimizers.h"

namespace trireme {
namespace {

constexpr std::array kLionStates{"lion.m"};

class LionOptimizer final : public Optimizer {
 public:
  LionOptimizer(const OptimizerOptions& options, UpdateRanks)
      : options_(options), windows_(options) {}

  std::vector<State> state(const ParamSpec&, DType accumulator) const override {
    return states_of(kLionStates, windows_.state_dtype(accumulator));
  }
  void prepare(const ParamStore&, std::span<const ParamShard> shards, Arena& workspace) override {
    windows_.prepare(shards, workspace);
  }
  void update(const UpdateStep& step, std::span<const ParamShard> shards) override {
    for (const ParamShard& shard : shards) {
      const ops::Lion how{.learning_rate = step.learning_rate,
                          .beta1 = options_.beta1,
                          .beta2 = options_.beta2,
                          .weight_decay = weight_decay_of(options_, shard.param->spec)};
      windows_.each(step, shard, kLionStates, Windows::Writes::kBoth,
                    [&](const UpdateTensors& tensors) {
                      ops::lion(step.stream, tensors, step.grad_scale, how);
                    });
    }
  }

 private:
  OptimizerOptions options_;
  Windows windows_;
};

}  // namespace

// Lion (Chen et al. 2023), as the authors' lion_pytorch; see ops::lion.
NamedOptimizer lion_optimizer() {
  return {.name = "Lion",
          .make = make_as<LionOptimizer>,
          .reads = {"beta1", "beta2"},
          .defaults = {.beta2 = 0.99}};
}

}  // namespace trireme
