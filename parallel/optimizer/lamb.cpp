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
  void prepare(const ParamStore& params, std::span<const UpdateRange> ranges,
               Arena& workspace) override {
    windows_.prepare(ranges, workspace);
    norms_.prepare(params, workspace);
  }
  void update(Stream& stream, std::span<const UpdateRange> ranges, Tensor grad_scale,
              double learning_rate, std::int64_t update) override {
    const UpdateStep step{stream, grad_scale, learning_rate, update};
    for (const UpdateRange& range : ranges) turn_into_directions(step, range);
    norms_.measure(stream, ranges);
    for (const Param* param : norms_.params()) {
      const ParamNorms::Norms norms = norms_.of(*param);
      ops::trust_ratio(stream, norms.ratio, norms.weight, norms.direction, {}, {});
    }
    for (const UpdateRange& range : ranges) {
      const Tensor ratio = range.param->spec.decay ? norms_.of(*range.param).ratio : Tensor{};
      windows_.each(step, range, {}, Windows::Writes::kWeights, [&](const Windows::Piece& piece) {
        ops::apply_direction(stream, {piece.value, piece.master, piece.grad, ratio, grad_scale},
                             learning_rate, 0);
      });
    }
  }

 private:
  void turn_into_directions(const UpdateStep& step, const UpdateRange& range) const {
    const ops::AdamDirection how{
        .beta1 = options_.beta1,
        .beta2 = options_.beta2,
        .epsilon = options_.epsilon,
        .weight_decay = range.param->spec.decay ? options_.weight_decay : 0,
        .step = step.update};
    windows_.each(
        step, range, kLambStates, Windows::Writes::kState, [&](const Windows::Piece& piece) {
          ops::adam_direction(
              step.stream,
              {piece.weight(), piece.state[0], piece.state[1], piece.grad, step.grad_scale}, how);
        });
  }

  OptimizerOptions options_;
  Windows windows_;
  ParamNorms norms_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lamb(const OptimizerOptions& options, UpdateRanks ranks) {
  return std::make_unique<LambOptimizer>(options, ranks);
}

}  // namespace trireme
