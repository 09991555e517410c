#include "parallel/optimizer/adamw.h"

#include "model/ops/optimizer.h"
#include "parallel/optimizer/optimizers.h"

namespace trireme {
namespace {

class AdamWOptimizer final : public Optimizer {
 public:
  explicit AdamWOptimizer(const OptimizerOptions& options) : options_(options), windows_(options) {}

  std::vector<State> state(const ParamSpec&, DType accumulator) const override {
    return states_of(kAdamStates, windows_.state_dtype(accumulator));
  }
  void prepare(const ParamStore&, std::span<const UpdateRange> ranges, Arena& workspace) override {
    windows_.prepare(ranges, workspace);
  }
  void update(Stream& stream, std::span<const UpdateRange> ranges, Tensor grad_scale,
              double learning_rate, std::int64_t update) override {
    const UpdateStep step{stream, grad_scale, learning_rate, update};
    for (const UpdateRange& range : ranges) update_by_adamw(windows_, options_, step, range);
  }

 private:
  OptimizerOptions options_;
  Windows windows_;
};

}  // namespace

void update_by_adamw(const Windows& windows, const OptimizerOptions& options,
                     const UpdateStep& step, const UpdateRange& range) {
  const ops::AdamW how{.learning_rate = step.learning_rate,
                       .beta1 = options.beta1,
                       .beta2 = options.beta2,
                       .epsilon = options.epsilon,
                       .weight_decay = range.param->spec.decay ? options.weight_decay : 0,
                       .step = step.update};
  windows.each(step, range, kAdamStates, Windows::Writes::kBoth, [&](const Windows::Piece& piece) {
    ops::adamw(step.stream,
               {.value = piece.value,
                .master = piece.master,
                .m = piece.state[0],
                .v = piece.state[1],
                .grad = piece.grad,
                .grad_scale = step.grad_scale},
               how);
  });
}

std::unique_ptr<Optimizer> make_adamw(const OptimizerOptions& options, UpdateRanks) {
  return std::make_unique<AdamWOptimizer>(options);
}

}  // namespace trireme
