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
  void prepare(const ParamStore&, std::span<const UpdateRange> ranges, Arena& workspace) override {
    windows_.prepare(ranges, workspace);
  }
  void update(Stream& stream, std::span<const UpdateRange> ranges, Tensor grad_scale,
              double learning_rate, std::int64_t update) override {
    const UpdateStep step{stream, grad_scale, learning_rate, update};
    for (const UpdateRange& range : ranges) {
      const ops::Lion how{.learning_rate = learning_rate,
                          .beta1 = options_.beta1,
                          .beta2 = options_.beta2,
                          .weight_decay = range.param->spec.decay ? options_.weight_decay : 0};
      windows_.each(
          step, range, kLionStates, Windows::Writes::kBoth, [&](const Windows::Piece& piece) {
            ops::lion(stream, {piece.value, piece.master, piece.state[0], piece.grad, grad_scale},
                      how);
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
