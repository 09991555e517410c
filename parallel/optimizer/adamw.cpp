#include <algorithm>

#include "model/ops/adamw_rounded.h"
#include "parallel/optimizer/optimizers.h"

namespace trireme {
namespace {

class AdamWOptimizer final : public Optimizer {
 public:
  AdamWOptimizer(const OptimizerOptions& options, UpdateRanks)
      : options_(options), windows_(options) {}

  std::vector<State> state(const ParamSpec&, DType accumulator) const override {
    return states_of(kAdamStates, windows_.state_dtype(accumulator));
  }
  void prepare(const ParamStore&, std::span<const ParamShard>, Arena&) override {}
  void update(const UpdateStep& step, std::span<const ParamShard> shards) override {
    for (const ParamShard& shard : shards) update_by_adamw(windows_, options_, step, shard);
  }

 private:
  OptimizerOptions options_;
  Windows windows_;
};

}  // namespace

void update_by_adamw(const Windows& windows, const OptimizerOptions& options,
                     const UpdateStep& step, const ParamShard& shard) {
  const ops::AdamW how{.learning_rate = step.learning_rate,
                       .beta1 = options.beta1,
                       .beta2 = options.beta2,
                       .epsilon = options.eps,
                       .weight_decay = weight_decay_of(options, shard.param->spec),
                       .step = step.update};
  if (!options.has_bfloat16_state()) {
    windows.each(step, shard, kAdamStates, Windows::Writes::kBoth,
                 [&](const UpdateTensors& tensors) {
                   ops::adamw(step.stream, tensors, step.grad_scale, how);
                 });
    return;
  }
  constexpr Staging::Parts kBoth{.master = true, .state = true};
  each_part(
      step, shard, std::max<std::int64_t>(shard.count(), 1), /*into=*/0, kBoth, kBoth,
      [&](const ParamShard& part) {
        const auto key = [&](const char* tensor) { return rounding_of(step, part, tensor).key; };
        const ops::StochasticRounding value = rounding_of(step, part, "value");
        const bool rounds = options.stochastic_rounding && part.value.dtype == DType::kBf16;
        ops::adamw_rounded(step.stream,
                           {part.value, part.master, part.grad, {part.state[0], part.state[1]}},
                           step.grad_scale, how,
                           {.m_key = key(kAdamStates[0]),
                            .v_key = key(kAdamStates[1]),
                            .value_key = value.key,
                            .rounds_value = rounds,
                            .update = value.update,
                            .where = value.where});
      });
}

// Adam with decoupled weight decay (Loshchilov and Hutter 2019); see ops::adamw.
NamedOptimizer adamw_optimizer() {
  return {.name = "AdamW", .make = make_as<AdamWOptimizer>, .reads = {"beta1", "beta2", "eps"}};
}

}  // namespace trireme
