// Chunks of tokens of an MLP that is recomputed.
#include "model/layers/mlp.h"

#include <cstring>
#include <map>

#include "model/device/tuning.h"
#include "model/ops/elementwise.h"
#include "tests/model/layers/gradient_check.h"

namespace trireme::test {
namespace {

constexpr Device kImaginedGpu{Device::Kind::kCuda, 0};

TEST(Mlp, chunks_are_whole_tiles_of_about_as_many_tokens) {
  EXPECT_EQ(Mlp::chunk_rows({}, 1, 1), 1);
  EXPECT_EQ(Mlp::chunk_rows({}, 1000, 1), 1000);
  EXPECT_EQ(Mlp::chunk_rows({}, 1024, 1), 1024);
  EXPECT_EQ(Mlp::chunk_rows({}, 1025, 1), 640);  // 640 + 385
  EXPECT_EQ(Mlp::chunk_rows({}, 2500, 1), 896);  // 896 + 896 + 708
  EXPECT_EQ(Mlp::chunk_rows({}, 8192, 1), 1024);
  EXPECT_EQ(Mlp::chunk_rows(kImaginedGpu, 8192, 1), 8192);
  EXPECT_EQ(Mlp::chunk_rows(kImaginedGpu, 12288, 1), 6144);
  EXPECT_EQ(Mlp::chunk_rows(kImaginedGpu, 131072, 1), 8192);
  // Of an eighth of the width, eight times as many.
  EXPECT_EQ(Mlp::chunk_rows(kImaginedGpu, 65536, 8), 65536);
  EXPECT_EQ(Mlp::chunk_rows(kImaginedGpu, 131072, 8), 65536);
  for (const Device device : {Device{}, kImaginedGpu}) {
    const std::int64_t most = tuning_of(device).mlp_rows;
    for (std::int64_t tokens = most + 1; tokens < 5 * most; tokens += 61) {
      const std::int64_t rows = Mlp::chunk_rows(device, tokens, 1);
      ASSERT_LE(rows, most);
      ASSERT_EQ(rows % 128, 0);
      ASSERT_EQ((tokens + rows - 1) / rows, (tokens + most - 1) / most) << tokens;
    }
  }
}

constexpr std::int64_t kSeveral = 2512, kHidden = 16, kIntermediate = 32;

enum class Path {
  kDirect,    // without recomputation
  kRestored,  // from what restore() recomputes
  kAgain,     // from a second forward, as for a norm that follows
  kDeferred,  // as kRestored, weight gradients later
};

struct Computed {
  std::vector<double> y, dx;
  std::map<std::string, std::vector<double>> gradients;
  bool operator==(const Computed&) const = default;
};

struct MlpCase {
  const char* name;
  MlpSpec spec;
  DType dtype = DType::kF64;
};
std::ostream& operator<<(std::ostream& out, const MlpCase& c) {
  return out << c.name;
}

// Forward and backward of two micro-batches, of which the second adds.
Computed computed(const MlpCase& c, Path path, std::int64_t tokens = kSeveral) {
  Arena weights(1 << 20), masters(1 << 20), gradients(1 << 20), fixed(8 << 20),
      saved_memory(8 << 20), scratch(8 << 20);
  Stream stream;
  ParamStore params;
  Region region;
  const Mlp mlp(params, "mlp", c.spec, region);
  const auto random = [&](Tensor into, const std::string& name, double scale) {
    const Arena::Frame frame(scratch);
    const Tensor exact = scratch.take(into.shape, DType::kF64);
    fill_normal(exact, name, scale);
    if (into.dtype == DType::kF64) {
      ops::copy(stream, into, exact);
    } else {
      ops::cast(stream, into, exact);
    }
    return into;
  };
  const auto values = [&](const Tensor& from) {
    const Arena::Frame frame(fixed);
    Tensor exact = from;
    if (from.dtype != DType::kF64) {
      exact = fixed.take(from.shape, DType::kF64);
      ops::cast(stream, exact, from);
    }
    return std::vector<double>(exact.as<double>(), exact.as<double>() + exact.count());
  };
  params.allocate({weights, masters, &gradients}, c.dtype);
  for (Weight& weight : params.weights()) {
    for (Param& param : weight.parts) random(param.value, param.spec.name, 0.3);
  }
  params.expect_gradients();
  Computed found;
  for (const char* const batch : {"first", "second"}) {
    fixed.reset();
    saved_memory.reset();
    scratch.reset();
    const Tensor x = random(fixed.take({tokens, kHidden}, c.dtype), say(batch, " x"), 1);
    const Tensor dy = random(fixed.take({tokens, kHidden}, c.dtype), say(batch, " dy"), 1);
    DeferredGradients later;
    ExecContext ctx{stream, saved_memory, scratch, path == Path::kDeferred ? &later : nullptr};
    const Recompute recompute = path == Path::kDirect ? Recompute::kNone : Recompute::kFull;
    Mlp::Saved saved;
    found.y = values(mlp.forward(ctx, saved_memory, x, recompute, saved));
    if (path == Path::kRestored || path == Path::kDeferred) {
      saved = {};
      mlp.restore(ctx, x, saved);
    }
    found.dx = values(mlp.backward(ctx, dy, saved));
    scratch.reset();
    std::memset(scratch.ever_used().data, 0xff, scratch.ever_used().bytes());
    later.compute(ctx);
  }
  for (const Weight& weight : params.weights()) {
    for (const Param& param : weight.parts) found.gradients[param.spec.name] = values(param.grad);
  }
  return found;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                 double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  double largest = 0, worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::fabs(expected[i]));
    worst = std::max(worst, std::fabs(got[i] - expected[i]));
  }
  EXPECT_GT(largest, 0) << what;
  EXPECT_LE(worst, tolerance * largest) << what;
}

class MlpChunks : public testing::TestWithParam<MlpCase> {};

TEST_P(MlpChunks, compute_what_all_tokens_at_once_do) {
  const MlpCase& c = GetParam();
  const Computed direct = computed(c, Path::kDirect);
  const Computed chunked = computed(c, Path::kRestored);
  double tolerance = 1e-13;
  if (c.dtype == DType::kBf16) tolerance = 0.01;
  if (c.spec.precision == MatmulPrecision::kFloat8) tolerance = 0.1;  // each chunk has its scales
  expect_near(chunked.y, direct.y, tolerance, "y");
  expect_near(chunked.dx, direct.dx, tolerance, "dx");
  ASSERT_EQ(chunked.gradients.size(), direct.gradients.size());
  for (const auto& [name, values] : direct.gradients) {
    expect_near(chunked.gradients.at(name), values, tolerance, name);
  }
}

// Also of those whose weight gradients come later, as in zero-bubble schedules.
TEST_P(MlpChunks, have_the_same_bits_on_every_path) {
  const Computed restored = computed(GetParam(), Path::kRestored);
  EXPECT_TRUE(computed(GetParam(), Path::kRestored) == restored);
  EXPECT_TRUE(computed(GetParam(), Path::kAgain) == restored);
  EXPECT_TRUE(computed(GetParam(), Path::kDeferred) == restored);
}

TEST_P(MlpChunks, of_which_there_is_one_have_the_bits_of_no_recomputation) {
  const Computed direct = computed(GetParam(), Path::kDirect, 1024);
  EXPECT_TRUE(computed(GetParam(), Path::kRestored, 1024) == direct);
  EXPECT_TRUE(computed(GetParam(), Path::kAgain, 1024) == direct);
  EXPECT_TRUE(computed(GetParam(), Path::kDeferred, 1024) == direct);
}

MlpSpec mlp_of(bool gated, bool bias, MatmulPrecision precision = MatmulPrecision::kNative) {
  return {.hidden = kHidden,
          .intermediate = kIntermediate,
          .activation = gated ? Activation::kSilu : Activation::kGeluTanh,
          .gated = gated,
          .bias = bias,
          .precision = precision};
}

INSTANTIATE_TEST_SUITE_P(
    Of, MlpChunks,
    testing::Values(MlpCase{"gated", mlp_of(true, false)},
                    MlpCase{"gated_with_bias", mlp_of(true, true)},
                    MlpCase{"not_gated", mlp_of(false, false)},
                    MlpCase{"not_gated_with_bias", mlp_of(false, true)},
                    MlpCase{"bfloat16", mlp_of(true, true), DType::kBf16},
                    MlpCase{"float8", mlp_of(true, false, MatmulPrecision::kFloat8), DType::kBf16},
                    MlpCase{"float8_with_bias", mlp_of(false, true, MatmulPrecision::kFloat8),
                            DType::kBf16}),
    [](const auto& of) { return std::string(of.param.name); });

struct Peaks {
  std::size_t saved = 0, scratch = 0;
};

Peaks peaks_of(Device device, std::int64_t tokens, std::int64_t intermediate, bool deferred) {
  Tally tally;
  Stream stream(device, tally);
  const auto unbounded = [&] { return Arena::unbounded(device); };
  Arena weights = unbounded(), masters = unbounded(), gradients = unbounded(), fixed = unbounded(),
        saved_memory = unbounded(), scratch = unbounded();
  ParamStore params;
  Region region;
  const Mlp mlp(params, "mlp", {.hidden = kHidden, .intermediate = intermediate, .bias = true},
                region);
  params.allocate({weights, masters, &gradients}, DType::kBf16);
  const Tensor x = fixed.take({tokens, kHidden}, DType::kBf16);
  DeferredGradients later;
  ExecContext ctx{stream, saved_memory, scratch, deferred ? &later : nullptr};
  Mlp::Saved saved;
  const Tensor y = mlp.forward(ctx, scratch, x, Recompute::kFull, saved);
  scratch.reset();
  mlp.restore(ctx, x, saved);
  mlp.backward(ctx, y, saved);
  return {saved_memory.peak(), scratch.peak()};
}

// Beside y, and dx, which have all tokens.
TEST(Mlp, memory_of_chunks_does_not_grow_with_the_tokens) {
  for (const Device device : {Device{}, kImaginedGpu}) {
    const std::int64_t some = 4 * tuning_of(device).mlp_rows, many = 4 * some;
    const auto grown = static_cast<std::size_t>((many - some) * kHidden * 2);
    const Peaks of_some = peaks_of(device, some, 512, false);
    const Peaks of_many = peaks_of(device, many, 512, false);
    EXPECT_EQ(of_many.scratch, of_some.scratch + grown);
    EXPECT_EQ(of_many.saved, 0U);
    // Deferred weight gradients read the activation's output and the gradient of its input.
    const Peaks some_deferred = peaks_of(device, some, 512, true);
    const Peaks many_deferred = peaks_of(device, many, 512, true);
    EXPECT_EQ(many_deferred.scratch, some_deferred.scratch + grown);
    EXPECT_EQ(some_deferred.saved, static_cast<std::size_t>(some * 3 * 512 * 2));
    EXPECT_EQ(many_deferred.saved, static_cast<std::size_t>(many * 3 * 512 * 2));
  }
}

}  // namespace
}  // namespace trireme::test
