#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "model/stage/stage.h"
#include "tests/tiny_model.h"

namespace trireme::test {
namespace {

constexpr std::int64_t kTokens = 5;
constexpr int kMicroBatches = 3;
using Bytes = std::vector<std::byte>;

Bytes bytes_of(const Tensor& tensor) {
  return {tensor.data, tensor.data + tensor.bytes()};
}

// One of two stages of a tiny model, with memory for all micro-batches.
class Half {
 public:
  Half(bool gpt2, Recompute recompute, DType dtype, bool last) {
    ModelConfig config = tiny_model(gpt2 ? "gpt2" : "qwen3", kTwoBlocks);
    config.tie_word_embeddings = false;
    stage_.emplace(params_, config,
                   Stage::Spec{.first_block = last ? 1 : 0,
                               .end_block = last ? 2 : 1,
                               .max_positions = kTokens,
                               .recompute = recompute},
                   Seams{region_, core_}, hooks_);
    stage_->allocate({weights_, masters_, &gradients_}, dtype, false);
    params_.initialize(3);
    params_.expect_gradients();
    for (int m = 0; m < kMicroBatches; ++m) keeps_.emplace_back(1 << 16);
  }

  Tensor forward(int m, Tensor x) {
    const auto row = [&](std::initializer_list<std::int32_t> values) {
      const Tensor tensor = tokens_.take({kTokens}, DType::kI32);
      std::copy(values.begin(), values.end(), tensor.as<std::int32_t>());
      return tensor;
    };
    const Tensor scale = tokens_.take({1}, DType::kF64);
    *scale.as<double>() = 0.5;
    ExecContext ctx = run_of(m);
    return spoiling_scratch(stage_->forward(ctx,
                                            {.seq_len = kTokens,
                                             .ids = row({1 + m, 2, 3, 4, 5 + m}),
                                             .targets = row({2, 3, -1, 5 + m, 6}),
                                             .positions = row({0, 1, 2, 3, 4}),
                                             .document_start = row({0, 0, 0, 0, 0}),
                                             .scale = scale},
                                            x, saved(m)));
  }
  Tensor backward(int m, Tensor dy) {
    ExecContext ctx = run_of(m);
    return spoiling_scratch(stage_->backward(ctx, dy, saved(m)));
  }
  Tensor backward_input(int m, Tensor dy) {
    ExecContext ctx = run_of(m);
    return spoiling_scratch(stage_->backward_input(ctx, dy, saved(m)));
  }
  void backward_weight(int m) {
    ExecContext ctx = run_of(m);
    stage_->backward_weight(ctx, saved(m));
    spoiling_scratch({});
  }
  Bytes gradients() const {
    params_.require_gradients();
    return bytes_of(params_.grads());
  }
  std::size_t kept(int m) const { return keeps_[m].used(); }
  int finished_blocks() const { return hooks_.finished; }

 private:
  struct CountingHooks final : UnitHooks {
    explicit CountingHooks(const ParamStore& counted) : params(counted) {}
    void after_gradients(Stream&, int unit) override {
      finished += params.units()[unit].layer >= 0 ? 1 : 0;
    }
    const ParamStore& params;
    int finished = 0;
  };
  ExecContext run_of(int m) { return {stream_, keeps_[m], scratch_}; }
  Stage::Saved& saved(int m) { return saved_[m]; }
  // Fills scratch with what reads as NaN: nobody may look at it any more.
  Tensor spoiling_scratch(Tensor result) {
    const Arena::Frame frame(scratch_);
    const Tensor all = scratch_.take({static_cast<std::int64_t>(scratch_.capacity() / 4)});
    std::memset(all.data, 0xff, all.bytes());
    return result;
  }

  Stream stream_;
  Region region_;
  AttentionCore core_;
  Arena weights_{1 << 18}, masters_{1 << 18}, gradients_{1 << 18}, tokens_{1 << 14},
      scratch_{1 << 18};
  std::deque<Arena> keeps_;
  std::array<Stage::Saved, kMicroBatches> saved_;
  ParamStore params_;
  CountingHooks hooks_{params_};
  std::optional<Stage> stage_;
};

class BackwardHalves : public testing::TestWithParam<std::tuple<bool, Recompute, DType>> {};

TEST_P(BackwardHalves, give_the_bits_of_a_whole_backward) {
  const auto [gpt2, recompute, dtype] = GetParam();
  const auto half = [&, g = gpt2, r = recompute, d = dtype](bool last) {
    return std::make_unique<Half>(g, r, d, last);
  };
  std::array<Bytes, kMicroBatches> sent;
  const auto first = half(false), last = half(true);
  for (int m = 0; m < kMicroBatches; ++m) {
    last->forward(m, first->forward(m, {}));
    const Tensor dx = last->backward(m, {});
    sent[m] = bytes_of(dx);
    first->backward(m, dx);
  }

  const auto split_first = half(false), split_last = half(true);
  for (int m = 0; m < kMicroBatches; ++m) split_last->forward(m, split_first->forward(m, {}));
  for (int m = 0; m < kMicroBatches; ++m) {
    const Tensor dx = split_last->backward_input(m, {});
    EXPECT_EQ(bytes_of(dx), sent[m]) << "micro-batch " << m;
    split_first->backward_input(m, dx);
    // One micro-batch late on the first stage, all of them at the end on the last.
    if (m > 0) split_first->backward_weight(m - 1);
  }
  EXPECT_EQ(split_last->finished_blocks(), 0);
  split_first->backward_weight(kMicroBatches - 1);
  for (int m = 0; m < kMicroBatches; ++m) split_last->backward_weight(m);

  EXPECT_EQ(split_first->gradients(), first->gradients());
  EXPECT_EQ(split_last->gradients(), last->gradients());
  EXPECT_EQ(split_last->finished_blocks(), last->finished_blocks());
  EXPECT_GT(split_last->kept(0), last->kept(0));
}

INSTANTIATE_TEST_SUITE_P(Families, BackwardHalves,
                         testing::Combine(testing::Bool(), testing::ValuesIn(kRecomputeModes),
                                          testing::Values(DType::kF32, DType::kF64, DType::kBf16,
                                                          DType::kF16)));

TEST(DeferredGradients, are_not_made_from_a_tensor_that_will_not_last) {
  ParamStore params;
  Weight& weight = params.declare({.name = "w", .shape = {4, 4}});
  Arena memory(1 << 16), keep(1 << 12), scratch(1 << 12);
  params.allocate({memory, memory, &memory}, DType::kF32);
  const Linear linear(weight, nullptr);
  const Tensor kept = keep.take({2, 4});
  const Tensor temporary = scratch.take({2, 4});
  Stream stream;
  DeferredGradients deferred;
  trireme::ExecContext ctx{stream, keep, scratch, &deferred};
  EXPECT_NO_THROW(linear.backward_weight(ctx, Linear::Gradient(kept), {kept}));
  EXPECT_THROW(linear.backward_weight(ctx, Linear::Gradient(temporary), {kept}), Error);
  EXPECT_THROW(linear.backward_weight(ctx, Linear::Gradient(kept), {temporary}), Error);
}

}  // namespace
}  // namespace trireme::test
