#include "model/ops/momentum.h"
#include "parallel/optimizer/optimizers.h"
#include "parallel/optimizer/windows.h"

namespace trireme {
namespace {

constexpr std::array kLionStates{"lion.m"};

class LionOptimizer final : public Optimizer {
 public:
  explicit LionOptimizer(const OptimizerOptions& options) : options_(options), windows_(options) {}

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

std::unique_ptr<Optimizer> make_lion(const OptimizerOptions& options, UpdateRanks) {
  return std::make_unique<LionOptimizer>(options);
}

}  // namespace trireme
