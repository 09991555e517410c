#include "model/ops/attention.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <vector>

#include "model/ops/cpu/simd/isa.h"
#include "tests/model/ops/random_tensor.h"

namespace trireme::ops {
namespace {

using Values = std::vector<double>;

struct Case {
  std::int64_t batch, seq, heads, kv_heads, width;
  std::int64_t document;  // length of a document; 0 for one as long as the sequence
  AttentionShape shape() const {
    AttentionShape s;
    s.batch = batch, s.seq = seq;
    s.heads = {heads, kv_heads, width};
    s.scale = 1 / std::sqrt(static_cast<double>(width));
    return s;
  }
  std::int64_t tokens() const { return batch * seq; }
  std::int64_t start(std::int64_t token) const {
    const std::int64_t t = token % seq;
    // Documents begin elsewhere in each sequence of the batch.
    return document == 0
               ? 0
               : std::max<std::int64_t>(0, (t + token / seq) / document * document - token / seq);
  }
};

std::ostream& operator<<(std::ostream& out, const Case& x) {
  return out << "batch " << x.batch << " seq " << x.seq << " heads " << x.heads << "/" << x.kv_heads
             << " width " << x.width << " document " << x.document;
}

// What the tiles compute, written with whole matrices in float64.
struct Reference {
  Values out, lse, dqkv;

  Reference(const Case& x, const Values& qkv, const Values& dout)
      : out(x.tokens() * x.heads * x.width), lse(x.tokens() * x.heads), dqkv(qkv.size()) {
    const std::int64_t row = x.shape().heads.qkv(), group = x.heads / x.kv_heads;
    for (std::int64_t b = 0; b < x.batch; ++b)
      for (std::int64_t h = 0; h < x.heads; ++h)
        for (std::int64_t t = 0; t < x.seq; ++t) {
          const std::int64_t token = b * x.seq + t, first = b * x.seq + x.start(token);
          const std::int64_t q = token * row + h * x.width;
          const std::int64_t k = (x.heads + h / group) * x.width;
          const std::int64_t v = k + x.kv_heads * x.width, o = (token * x.heads + h) * x.width;
          Values p(token - first + 1), dp(p.size());
          double top = -INFINITY, sum = 0, mean = 0;
          for (std::size_t s = 0; s < p.size(); ++s) {
            for (std::int64_t i = 0; i < x.width; ++i)
              p[s] += qkv[q + i] * qkv[(first + s) * row + k + i] * x.shape().scale;
            top = std::max(top, p[s]);
          }
          for (double& value : p) sum += value = std::exp(value - top);
          lse[token * x.heads + h] = top + std::log(sum);
          for (std::size_t s = 0; s < p.size(); ++s) {
            p[s] /= sum;
            for (std::int64_t i = 0; i < x.width; ++i) {
              out[o + i] += p[s] * qkv[(first + s) * row + v + i];
              dp[s] += dout[o + i] * qkv[(first + s) * row + v + i];
            }
            mean += p[s] * dp[s];
          }
          for (std::size_t s = 0; s < p.size(); ++s) {
            const double ds = p[s] * (dp[s] - mean) * x.shape().scale;
            for (std::int64_t i = 0; i < x.width; ++i) {
              dqkv[(first + s) * row + v + i] += p[s] * dout[o + i];
              dqkv[(first + s) * row + k + i] += ds * qkv[q + i];
              dqkv[q + i] += ds * qkv[(first + s) * row + k + i];
            }
          }
        }
  }
};

struct Computed {
  OwnedTensor qkv, dout, document_start, out, lse, dqkv;
  Case x;

  Computed(const Case& how, DType dtype)
      : qkv({how.tokens(), how.shape().heads.qkv()}, dtype),
        dout({how.tokens(), how.shape().heads.query()}, dtype),
        document_start({how.tokens()}, DType::kI32),
        out({how.tokens(), how.shape().heads.query()}, dtype),
        lse({how.tokens(), how.heads}, accumulator_of(dtype)),
        dqkv({how.tokens(), how.shape().heads.qkv()}, dtype),
        x(how) {
    qkv.randomize(1), dout.randomize(2);
    for (std::int64_t t = 0; t < x.tokens(); ++t) document_start.set(t, double(x.start(t)));
    // Results must be written, not added to.
    out.fill(NAN), lse.fill(NAN), dqkv.fill(NAN);
  }
  // In arenas of exactly the planned size.
  Computed& run() {
    Stream stream;
    Tally tally;
    Stream planning(Device{}, tally);
    Arena plan = Arena::unbounded();
    forward(planning, plan);
    backward(planning, plan);
    Arena scratch(plan.peak());
    forward(stream, scratch);
    backward(stream, scratch);
    EXPECT_EQ(scratch.used(), 0u);
    return *this;
  }
  void forward(Stream& stream, Arena& scratch) {
    attention(stream, scratch, out, lse, qkv, document_start, x.shape());
  }
  void backward(Stream& stream, Arena& scratch) {
    attention_backward(stream, scratch, {dqkv, dout, out, qkv, lse, document_start}, x.shape());
  }
};

double furthest(const Values& a, const Values& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double apart = std::fabs(a[i] - b[i]);
    worst = std::isnan(apart) ? INFINITY : std::max(worst, apart);
  }
  return worst;
}

// Inputs are at most 1 and so are scores / sqrt(width); outputs are averages of
// values and gradients sums of at most `seq` terms of a few units. float32 rounds
// each with 2^-24, bfloat16 the stored result, and in the backward the stored
// output, with 2^-8.
void expect_reference(const Case& x, DType dtype) {
  SCOPED_TRACE(::testing::Message() << name_of(dtype) << " " << x);
  Computed c(x, dtype);
  c.run();
  const Reference r(x, c.qkv.values(), c.dout.values());
  double largest = 1;
  for (const double d : r.dqkv) largest = std::max(largest, std::fabs(d));
  const double unit = dtype == DType::kF64 ? 1e-14 : dtype == DType::kF32 ? 4e-6 : 0x1p-8;
  EXPECT_LE(furthest(c.out.values(), r.out), unit);
  EXPECT_LE(furthest(c.lse.values(), r.lse), dtype == DType::kF64 ? 1e-14 : 1e-5);
  EXPECT_LE(furthest(c.dqkv.values(), r.dqkv), 2 * unit * largest);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t seq : {1, 2, 7, 16, 33, 63, 64, 65, 100, 128, 129, 200, 300})
    all.push_back({1, seq, 2, 1, 24, 0});
  for (const std::int64_t width : {1, 3, 8, 16, 20, 32, 48, 64, 65, 80, 100, 128, 200})
    all.push_back({2, 70, 2, 2, width, 0});
  for (const std::int64_t kv_heads : {1, 2, 3, 6}) all.push_back({2, 90, 6, kv_heads, 16, 0});
  for (const std::int64_t document : {1, 2, 5, 16, 37, 64, 65, 128, 190})
    all.push_back({3, 200, 2, 1, 16, document});
  return all;
}

class AttentionDtype : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Attention, AttentionDtype,
                         ::testing::Values(DType::kF32, DType::kF64, DType::kBf16),
                         [](const auto& of) { return name_of(of.param); });

TEST_P(AttentionDtype, IsThatOfWholeMatrices) {
  for (const Case& x : cases()) expect_reference(x, GetParam());
}

TEST_P(AttentionDtype, IsThatOfWholeMatricesOnEveryInstructionSet) {
  const simd::Isa best = simd::selected();
  for (const simd::Isa isa : {simd::Isa::kBaseline, simd::Isa::kAvx2, simd::Isa::kAvx512}) {
    if (!simd::present(isa)) continue;
    SCOPED_TRACE(simd::name_of(isa));
    simd::select(isa);
    expect_reference({2, 150, 4, 2, 72, 40}, GetParam());
    expect_reference({1, 64, 3, 3, 64, 0}, GetParam());
  }
  simd::select(best);
}

TEST_P(AttentionDtype, HasTheSameBitsWithAnyNumberOfThreads) {
  const int threads = omp_get_max_threads();
  // Whole heads, heads cut into shares, and fewer heads than threads.
  for (const Case& x : {Case{2, 200, 4, 4, 32, 0}, Case{1, 300, 4, 1, 16, 90},
                        Case{3, 130, 1, 1, 40, 0}, Case{1, 20, 1, 1, 8, 0}}) {
    SCOPED_TRACE(::testing::Message() << x);
    omp_set_num_threads(1);
    Computed alone(x, GetParam());
    alone.run();
    for (const int n : {2, 3, 5, 16}) {
      omp_set_num_threads(n);
      Computed shared(x, GetParam());
      shared.run();
      EXPECT_TRUE(alone.out.same_bits(shared.out)) << n;
      EXPECT_TRUE(alone.lse.same_bits(shared.lse)) << n;
      EXPECT_TRUE(alone.dqkv.same_bits(shared.dqkv)) << n;
    }
  }
  omp_set_num_threads(threads);
}

TEST_P(AttentionDtype, OfADocumentKnowsNothingOfTheOneBefore) {
  const Case x{1, 150, 2, 1, 16, 50};
  Computed c(x, GetParam()), other(x, GetParam());
  for (std::int64_t i = 0; i < 50 * c.x.shape().heads.qkv(); ++i) other.qkv.set(i, 100);
  c.run(), other.run();
  const Values a = c.out.values(), b = other.out.values();
  for (std::size_t i = 50 * 32; i < a.size(); ++i) ASSERT_EQ(a[i], b[i]) << i;
}

TEST_P(AttentionDtype, StaysFiniteOverScoresOfAnySize) {
  const Case x{1, 100, 1, 1, 16, 30};
  Computed c(x, GetParam());
  for (std::int64_t i = 0; i < c.x.tokens() * 48; ++i) c.qkv.set(i, c.qkv.get(i) * 200);
  c.run();
  for (const double value : c.out.values()) ASSERT_LE(std::fabs(value), 201);
  for (const double value : c.dqkv.values()) ASSERT_TRUE(std::isfinite(value));
}

TEST_P(AttentionDtype, ByACacheIsThatOfTheWholeSequence) {
  for (const Case& x : {Case{1, 140, 4, 2, 20, 0}, Case{1, 5, 2, 2, 64, 0}}) {
    Computed whole(x, GetParam());
    whole.run();
    const Heads heads = x.shape().heads;
    const std::int64_t width = heads.kv_heads * heads.width;
    OwnedTensor keys({200, width}, GetParam()), values({200, width}, GetParam());
    OwnedTensor out({x.seq, heads.query()}, GetParam());
    out.fill(NAN);
    Stream stream;
    std::int64_t first = 0;
    for (const std::int64_t tokens : {std::int64_t{3}, std::int64_t{1}, x.seq - 4}) {
      attention_cached(stream, out.view().row_slice(first, tokens),
                       whole.qkv.view().row_slice(first, tokens), keys, values, first, heads,
                       x.shape().scale);
      first += tokens;
    }
    const double unit = GetParam() == DType::kF64   ? 1e-14
                        : GetParam() == DType::kF32 ? 4e-6
                                                    : 0x1p-7;
    EXPECT_LE(furthest(out.values(), whole.out.values()), unit) << x;
  }
}

TEST(Attention, HasTheGradientOfItsOutput) {
  const Case x{2, 70, 4, 2, 6, 45};
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);  // thousands of calls too short to share
  Computed c(x, DType::kF64);
  c.run();
  const Values gradient = c.dqkv.values(), dout = c.dout.values();
  Stream stream;
  Arena scratch(std::size_t{64} << 20);
  const auto loss = [&] {
    c.forward(stream, scratch);
    const Values out = c.out.values();
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
    return sum;
  };
  double largest = 0, worst = 0;
  for (const double g : gradient) largest = std::max(largest, std::fabs(g));
  constexpr double kStep = 1e-3;  // the stencil's error is of its fourth power
  for (std::int64_t i = 0; i < x.tokens() * c.x.shape().heads.qkv(); i += 7) {
    const double value = c.qkv.get(i);
    Values at;
    for (const double step : {-2 * kStep, -kStep, kStep, 2 * kStep}) {
      c.qkv.set(i, value + step);
      at.push_back(loss());
    }
    c.qkv.set(i, value);
    const double slope = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * kStep);
    worst = std::max(worst, std::fabs(slope - gradient[i]));
  }
  omp_set_num_threads(threads);
  EXPECT_LT(worst, 1e-7 * largest);
}

TEST(Attention, CountsUsefulOperationsOnAPlanningStream) {
  Computed c({2, 10, 4, 2, 8, 0}, DType::kF32);
  Tally tally;
  Stream planning(Device{}, tally);
  Arena plan = Arena::unbounded();
  c.forward(planning, plan);
  const double matrix = 2.0 * 2 * 10 * 10 * 4 * 8;  // one product, every head
  EXPECT_EQ(tally.attention_full, 2 * matrix);
  EXPECT_EQ(tally.attention_causal, matrix);
  c.backward(planning, plan);
  EXPECT_EQ(tally.attention_full, 6 * matrix);
  EXPECT_EQ(tally.attention_causal, 3 * matrix);
  EXPECT_EQ(tally.matmul, 0);
  EXPECT_TRUE(std::isnan(c.out.get(0)));
}

TEST(Attention, RefusesWhatDoesNotFit) {
  Computed c({1, 8, 4, 2, 8, 0}, DType::kF32);
  Stream stream;
  Arena scratch(1 << 20);
  AttentionShape shape = c.x.shape();
  shape.seq = 9;
  EXPECT_THROW(attention(stream, scratch, c.out, c.lse, c.qkv, c.document_start, shape), Error);
  shape = c.x.shape();
  shape.heads.kv_heads = 3;
  EXPECT_THROW(attention(stream, scratch, c.out, c.lse, c.qkv, c.document_start, shape), Error);
  OwnedTensor wide({8, 4}, DType::kF64);
  EXPECT_THROW(attention(stream, scratch, c.out, wide, c.qkv, c.document_start, c.x.shape()),
               Error);
  OwnedTensor keys({4, 16}, DType::kF32), values({4, 16}, DType::kF32);
  EXPECT_THROW(attention_cached(stream, c.out, c.qkv, keys, values, 0, c.x.shape().heads, 1),
               Error);
}

}  // namespace
}  // namespace trireme::ops
