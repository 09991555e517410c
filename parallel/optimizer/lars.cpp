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
  void prepare(const ParamStore& params, std::span<const UpdateRange> ranges,
               Arena& workspace) override {
    windows_.prepare(ranges, workspace);
    norms_.prepare(params, workspace);
  }
  void update(Stream& stream, std::span<const UpdateRange> ranges, Tensor grad_scale,
              double learning_rate, std::int64_t update) override {
    norms_.measure(stream, ranges);
    for (const Param* param : norms_.params()) {
      const ParamNorms::Norms norms = norms_.of(*param);
      ops::trust_ratio(stream, norms.ratio, norms.weight, norms.direction, grad_scale,
                       {options_.trust_coefficient, options_.weight_decay});
    }
    const UpdateStep step{stream, grad_scale, learning_rate, update};
    for (const UpdateRange& range : ranges) {
      const bool decays = range.param->spec.decay;
      const Tensor rate = decays ? norms_.of(*range.param).ratio : Tensor{};
      const ops::Momentum how{.learning_rate = 1,
                              .momentum = options_.momentum,
                              .weight_decay = decays ? options_.weight_decay : 0,
                              .into = learning_rate};
      windows_.each(
          step, range, kLarsStates, Windows::Writes::kBoth, [&](const Windows::Piece& piece) {
            ops::sgd_step(stream,
                          {piece.value, piece.master, piece.state[0], piece.grad, grad_scale, rate},
                          how);
          });
    }
  }

 private:
  OptimizerOptions options_;
  Windows windows_;
  ParamNorms norms_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lars(const OptimizerOptions& options, UpdateRanks ranks) {
  return std::make_unique<LarsOptimizer>(options, ranks);
}

}  // namespace trireme
