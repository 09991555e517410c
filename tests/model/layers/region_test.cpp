#include "model/layers/region.h"

#include <limits>

#include "model/layers/attention.h"
#include "model/layers/mlp.h"
#include "tests/model/layers/gradient_check.h"

namespace trireme::test {
namespace {

// A region of one whose sums take their time: an input gradient can be read only once
// it has been waited for.
class LateRegion final : public Region {
 public:
  explicit LateRegion(ParamStore& params, const char* entered)
      : params_(params), entered_(entered) {}

  Tensor start_enter_backward(ExecContext&, Tensor partial) override {
    EXPECT_TRUE(weight().stale) << "the weight's gradient came before the input's was sent";
    late_ = partial;
    values_.assign(partial.as<double>(), partial.as<double>() + partial.count());
    std::fill(partial.as<double>(), partial.as<double>() + partial.count(),
              std::numeric_limits<double>::quiet_NaN());
    return partial;
  }
  void finish(ExecContext&) override {
    EXPECT_FALSE(weight().stale) << "the input's gradient was waited for without work meanwhile";
    std::copy(values_.begin(), values_.end(), late_.as<double>());
    ++finished;
  }
  int finished = 0;

 private:
  const Weight& weight() const {
    for (const Weight& weight : params_.weights()) {
      if (weight.parts.front().spec.name == entered_) return weight;
    }
    throw Error(say("no weight ", entered_));
  }
  ParamStore& params_;
  const char* entered_;
  Tensor late_;
  std::vector<double> values_;
};

std::vector<double> values_of(const Tensor& t) {
  return {t.as<double>(), t.as<double>() + t.count()};
}

std::vector<double> attention_gradient(LayerBench& bench, Region& region) {
  AttentionCore core;
  const Tensor no_table;
  const Attention attention(bench.params, "attention", {.hidden = 10, .heads = {4, 2, 6}}, region,
                            core, no_table);
  bench.allocate();
  bench.params.expect_gradients();
  const MicroBatch batch{.seq_len = 3,
                         .positions = bench.integers({0, 1, 2}),
                         .document_start = bench.integers({0, 0, 0})};
  Attention::Saved saved;
  attention.forward(bench.ctx, bench.ctx.scratch, bench.random({3, 10}, "x"), batch,
                    Recompute::kNone, saved);
  return values_of(attention.backward(bench.ctx, bench.random({3, 10}, "dy"), batch, saved));
}

std::vector<double> mlp_gradient(LayerBench& bench, Region& region) {
  const Mlp mlp(bench.params, "mlp", {.hidden = 6, .intermediate = 9}, region);
  bench.allocate();
  bench.params.expect_gradients();
  Mlp::Saved saved;
  mlp.forward(bench.ctx, bench.ctx.scratch, bench.random({3, 6}, "x"), Recompute::kNone, saved);
  return values_of(mlp.backward(bench.ctx, bench.random({3, 6}, "dy"), saved));
}

TEST(Region, input_gradients_travel_while_weight_gradients_are_computed) {
  const auto expect_late = [](auto gradient, const char* entered) {
    LayerBench at_once, late;
    Region region;
    LateRegion late_region(late.params, entered);
    EXPECT_EQ(gradient(late, late_region), gradient(at_once, region));
    EXPECT_EQ(late_region.finished, 1);
  };
  expect_late(attention_gradient, "attention.q.weight");
  expect_late(mlp_gradient, "mlp.gate.weight");
}

TEST(Region, alone_it_returns_what_it_is_given_and_takes_nothing) {
  LayerBench bench;
  Region region;
  const Tensor x = bench.random({4, 3}, "x");
  for (const Tensor& y :
       {region.enter(bench.ctx, bench.keep, x), region.leave(bench.ctx, bench.keep, x),
        region.leave_backward(bench.ctx, x), region.start_enter_backward(bench.ctx, x)}) {
    EXPECT_EQ(y.data, x.data);
    EXPECT_EQ(y.shape, x.shape);
  }
  EXPECT_EQ(bench.keep.peak() + bench.scratch.peak(), 0U);
  EXPECT_EQ(region.own_tokens(12), 12);
}

}  // namespace
}  // namespace trireme::test
