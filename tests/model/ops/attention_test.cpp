#include "model/ops/attention.h"

#include "model/ops/cuda/transpose.h"
#include "tests/model/ops/attention_reference.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

// Inputs are at most 1 and so are scores / sqrt(width); outputs are averages of
// values and gradients sums of at most `seq` terms of a few units. float32 rounds
// each with 2^-24, bfloat16 the stored result, and in the backward the stored
// output, with 2^-8, float16 with 2^-11; so do a GPU's 16-bit weights, half a unit each.
void expect_reference(Stream& stream, const AttentionCase& x, DType dtype) {
  SCOPED_TRACE(::testing::Message() << name_of(dtype) << " " << x);
  const ComputedAttention c(stream, x, dtype);
  const AttentionReference r(x, qkv_of(x, dtype), c.dout_values);
  double largest = 1;
  for (const double d : r.dqkv) largest = std::max(largest, std::fabs(d));
  const double unit = dtype == DType::kF64 ? 1e-14 : dtype == DType::kF32 ? 4e-6 : roundoff(dtype);
  EXPECT_LE(furthest(c.out.values(), r.out), unit);
  EXPECT_LE(furthest(c.lse.values(), r.lse), dtype == DType::kF64 ? 1e-14 : 1e-5);
  EXPECT_LE(furthest(c.dqkv.values(), r.dqkv), 2 * unit * largest);
}

std::vector<AttentionCase> cases() {
  std::vector<AttentionCase> all;
  // The CPU's tiles and a GPU's have edges at different places, and are as many as the
  // emulator has time for.
  if (kTriesCuda) {
    for (const std::int64_t seq : {1, 16, 33, 64, 65, 129, 200})
      all.push_back({1, seq, 2, 1, 24, 0});
    for (const std::int64_t width : {1, 8, 20, 64, 80, 128, 200, 256})
      all.push_back({2, 70, 1, 1, width, 0});
    for (const std::int64_t kv_heads : {2, 6}) all.push_back({1, 90, 6, kv_heads, 16, 0});
    for (const std::int64_t document : {1, 5, 37, 64, 190})
      all.push_back({2, 200, 2, 1, 16, document});
    all.push_back({1, 150, 2, 1, 136, 60});
    // Two widths that compute capability 9.0 has kernels for, with more than one tile of queries,
    // its kernel for long sequences, and its backward for many blocks of keys and for few.
    all.push_back({1, 2100, 1, 1, 64, 900, 250});
    for (const std::int64_t width : {64, 128}) {
      all.push_back({2, 400, 2, 1, width, 0});
      all.push_back({2, 300, 2, 1, width, 130});
      all.push_back({1, 400, 2, 1, width, 0, 140});
    }
    for (const std::int64_t window : {1, 7, 64, 65, 300}) {
      for (const std::int64_t document : {0, 90})
        all.push_back({2, 200, 2, 1, 16, document, window});
    }
    for (const std::int64_t width : {16, 64, 100, 256})
      all.push_back({1, 90, 2, 1, width, 0, 0, 0.5});
    return all;
  }
  for (const std::int64_t seq : {1, 2, 7, 16, 33, 63, 64, 65, 100, 128, 129, 200, 300})
    all.push_back({1, seq, 2, 1, 24, 0});
  for (const std::int64_t width : {1, 3, 8, 16, 20, 32, 48, 64, 65, 80, 100, 128, 200, 256})
    all.push_back({2, 70, 2, 2, width, 0});
  for (const std::int64_t kv_heads : {1, 2, 3, 6}) all.push_back({2, 90, 6, kv_heads, 16, 0});
  for (const std::int64_t document : {1, 2, 5, 16, 37, 64, 65, 128, 190})
    all.push_back({3, 200, 2, 1, 16, document});
  for (const std::int64_t window : {1, 7, 64, 65, 300}) {
    for (const std::int64_t document : {0, 90}) all.push_back({2, 200, 2, 1, 16, document, window});
  }
  for (const double soft_cap : {0.3, 1.0, 50.0}) {
    all.push_back({2, 200, 2, 1, 16, 0, 0, soft_cap});
    all.push_back({2, 150, 2, 1, 100, 90, 70, soft_cap});
  }
  for (const std::int64_t width : {20, 64, 128, 200}) {
    all.push_back({2, 130, 4, 2, width, 0, 0, 0, 0.3});
    all.push_back({2, 77, 2, 1, width, 50, 40, 1.0, 0.1});
  }
  return all;
}

class AttentionDtype : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Attention, AttentionDtype,
                         ::testing::Values(DType::kF32, DType::kF64, DType::kBf16, DType::kF16),
                         [](const auto& of) { return name_of(of.param); });

TEST_P(AttentionDtype, IsThatOfWholeMatrices) {
  on_every_platform([](Stream& stream) {
    for (const AttentionCase& x : cases()) expect_reference(stream, x, GetParam());
  });
}

TEST_P(AttentionDtype, HasTheSameBitsWithAnyNumberOfThreads) {
  const int threads = omp_get_max_threads();
  Stream stream{Device{}};
  // Whole heads, heads cut into shares, and fewer heads than threads.
  for (const AttentionCase& x :
       {AttentionCase{2, 200, 4, 4, 32, 0}, AttentionCase{1, 300, 4, 1, 16, 90},
        AttentionCase{3, 130, 1, 1, 40, 0}, AttentionCase{1, 20, 1, 1, 8, 0},
        AttentionCase{1, 300, 4, 1, 16, 150, 70}}) {
    SCOPED_TRACE(::testing::Message() << x);
    omp_set_num_threads(1);
    const ComputedAttention alone(stream, x, GetParam());
    for (const int n : {2, 3, 5, 16}) {
      omp_set_num_threads(n);
      const ComputedAttention shared(stream, x, GetParam());
      EXPECT_TRUE(alone.out.bits() == shared.out.bits()) << n;
      EXPECT_TRUE(alone.lse.bits() == shared.lse.bits()) << n;
      EXPECT_TRUE(alone.dqkv.bits() == shared.dqkv.bits()) << n;
    }
  }
  omp_set_num_threads(threads);
}

TEST_P(AttentionDtype, OfADocumentKnowsNothingOfTheOneBefore) {
  on_every_platform([](Stream& stream) {
    const AttentionCase x{1, 150, 2, 1, 16, 50};
    Values changed = qkv_of(x, GetParam());
    for (std::int64_t i = 0; i < 50 * x.shape().heads.qkv(); ++i) changed[i] = 100;
    const ComputedAttention c(stream, x, GetParam()), other(stream, x, GetParam(), changed);
    const Values a = c.out.values(), b = other.out.values();
    for (std::size_t i = 50 * 32; i < a.size(); ++i) ASSERT_EQ(a[i], b[i]) << i;
    const Values da = c.dqkv.values(), db = other.dqkv.values();
    for (std::size_t i = 50 * 64; i < da.size(); ++i) ASSERT_EQ(da[i], db[i]) << i;
  });
}

// A product with a masked element would be zero times NaN. 63 rows before a query or after a key
// are visible; no kernel has tiles of more than 192 queries or 128 keys.
TEST_P(AttentionDtype, SkipsTilesOutsideTheWindow) {
  on_every_platform([](Stream& stream) {
    const AttentionCase x{1, 640, 1, 1, 64, 0, 64};
    const std::int64_t row = x.shape().heads.qkv(), far = 63 + 192 + 128;
    const auto expect_finite = [&](const Values& values, std::int64_t first, std::int64_t end) {
      for (std::int64_t i = first; i < end; ++i) ASSERT_TRUE(std::isfinite(values[i])) << i;
    };
    Values keys = qkv_of(x, GetParam()), queries = keys;
    for (std::int64_t i = 0; i < 100 * row; ++i)
      if (i % row >= 64) keys[i] = kNan;
    const ComputedAttention of_keys(stream, x, GetParam(), keys);
    expect_finite(of_keys.out.values(), (100 + far) * 64, x.seq * 64);
    expect_finite(of_keys.dqkv.values(), (100 + far) * row, x.seq * row);
    for (std::int64_t i = 540 * row; i < x.seq * row; ++i)
      if (i % row < 64) queries[i] = kNan;
    const ComputedAttention of_queries(stream, x, GetParam(), queries);
    expect_finite(of_queries.dqkv.values(), 0, (540 - far) * row);
  });
}

TEST_P(AttentionDtype, StaysFiniteOverScoresOfAnySize) {
  on_every_platform([](Stream& stream) {
    const AttentionCase x{1, 100, 1, 1, 16, 30};
    Values large = qkv_of(x, GetParam());
    for (double& value : large) value = rounded(200 * value, GetParam());
    const ComputedAttention c(stream, x, GetParam(), large);
    for (const double value : c.out.values()) ASSERT_LE(std::fabs(value), 201);
    for (const double value : c.dqkv.values()) ASSERT_TRUE(std::isfinite(value));
  });
}

TEST_P(AttentionDtype, HasTheSameBitsInEveryRun) {
  on_every_platform([](Stream& stream) {
    const AttentionCase x{2, 150, 4, 2, 64, 0};
    const ComputedAttention first(stream, x, GetParam()), second(stream, x, GetParam());
    EXPECT_TRUE(first.out.bits() == second.out.bits());
    EXPECT_TRUE(first.lse.bits() == second.lse.bits());
    EXPECT_TRUE(first.dqkv.bits() == second.dqkv.bits());
  });
}

// Heads of two ranks.
TEST_P(AttentionDtype, DropsTheSameInHalvesOfItsHeads) {
  on_every_platform([](Stream& stream) {
    const AttentionCase x{2, 90, 4, 2, 16, 0, 0, 0, 0.3};
    const ComputedAttention whole(stream, x, GetParam());
    const Values expected = whole.out.values(), qkv = qkv_of(x, GetParam());
    for (const std::int64_t half : {0, 1}) {
      AttentionCase of_half = x;
      of_half.heads = 2, of_half.kv_heads = 1;
      Values part;
      for (std::int64_t token = 0; token < x.tokens(); ++token) {
        // Two of four query heads, one of two key heads and one of two value heads.
        for (const auto& [first, heads] :
             {std::pair{2 * half, 2}, std::pair{4 + half, 1}, std::pair{6 + half, 1}}) {
          const auto from = qkv.begin() + (token * 8 + first) * x.width;
          part.insert(part.end(), from, from + heads * x.width);
        }
      }
      const ComputedAttention c(stream, of_half, GetParam(), part, nullptr);
      AttentionShape shape = c.shape();
      shape.first_head += 2 * half;
      Arena scratch(std::size_t{1} << 20, stream.device());
      attention(stream, scratch, c.out, c.lse, c.qkv, c.first_seen, shape);
      const Values got = c.out.values();
      for (std::int64_t token = 0; token < x.tokens(); ++token) {
        for (std::int64_t i = 0; i < 2 * x.width; ++i) {
          ASSERT_EQ(got[token * 2 * x.width + i], expected[(token * 4 + 2 * half) * x.width + i]);
        }
      }
    }
  });
}

// Decodes in calls of these numbers of tokens, the last of them again until all are done, into a
// cache of `capacity` rows.
void expect_cached(Stream& stream, DType dtype, const AttentionCase& x, std::int64_t capacity,
                   std::vector<std::int64_t> calls) {
  SCOPED_TRACE(::testing::Message() << x << " by a cache of " << capacity);
  const ComputedAttention whole(stream, x, dtype);
  const Heads heads = x.shape().heads;
  const Shape cache{capacity, heads.kv_heads * heads.width};
  const Held keys(stream, cache, dtype), values(stream, cache, dtype);
  const Held out(stream, {x.seq, heads.query()}, dtype);
  Arena scratch(std::size_t{1} << 20, stream.device());
  std::int64_t tokens = 0;
  for (std::size_t call = 0, first = 0; first < static_cast<std::size_t>(x.seq); first += tokens) {
    const auto at = static_cast<std::int64_t>(first);
    tokens = std::min(calls[std::min(call++, calls.size() - 1)], x.seq - at);
    attention_cached(stream, scratch,
                     {.out = Tensor(out).row_slice(at, tokens),
                      .qkv = Tensor(whole.qkv).row_slice(at, tokens),
                      .keys = keys,
                      .values = values,
                      .first = at,
                      .heads = heads,
                      .scale = x.shape().scale,
                      .soft_cap = x.soft_cap,
                      .window = x.window});
  }
  const double unit = dtype == DType::kF64 ? 1e-14 : dtype == DType::kF32 ? 4e-6 : 0x1p-7;
  EXPECT_LE(furthest(out.values(), whole.out.values()), unit);
}

TEST_P(AttentionDtype, ByACacheIsThatOfTheWholeSequence) {
  on_every_platform([](Stream& stream) {
    for (const AttentionCase& x :
         {AttentionCase{1, 140, 4, 2, 20, 0}, AttentionCase{1, 5, 2, 2, 64, 0},
          AttentionCase{1, 40, 2, 1, 200, 0, 0, 0.5}, AttentionCase{1, 300, 3, 1, 16, 0}})
      expect_cached(stream, GetParam(), x, 320, {2, 1, x.seq - 4, 1});
  });
}

// Of the least capacity, so that a prompt goes round it several times.
TEST_P(AttentionDtype, ByARingIsThatOfTheWindow) {
  on_every_platform([](Stream& stream) {
    const DType dtype = GetParam();
    expect_cached(stream, dtype, {1, 60, 2, 1, 16, 0, 1}, 1, {1});
    expect_cached(stream, dtype, {1, 90, 4, 2, 20, 0, 7}, 7 + 24, {25, 3, 1, 25});
    expect_cached(stream, dtype, {1, 150, 2, 2, 64, 0, 65, 0.5}, 65 + 9, {74, 10, 1, 7});
    // On a GPU the keys of the last token are split.
    expect_cached(stream, dtype, {1, 330, 1, 1, 16, 0, 280}, 280 + 29, {150, 30, 120, 29, 1});
    expect_cached(stream, dtype, {1, 40, 2, 1, 16, 0, 100}, 40, {39, 1});
  });
}

TEST(Attention, AWindowStartsNoEarlierThanItsDocument) {
  on_every_platform([](Stream& stream) {
    for (const std::int64_t window : {1, 7, 64, 300}) {
      const AttentionCase x{3, 200, 1, 1, 1, 50, window};
      Values documents, expected;
      for (std::int64_t token = 0; token < x.tokens(); ++token) {
        documents.push_back(static_cast<double>(x.document_start(token)));
        expected.push_back(static_cast<double>(x.start(token)));
      }
      const Held from(stream, {x.tokens()}, DType::kI32, documents);
      const Held to(stream, {x.tokens()}, DType::kI32);
      window_start(stream, to, from, x.seq, window);
      EXPECT_EQ(to.values(), expected);
      window_start(stream, from, from, x.seq, window);
      EXPECT_EQ(from.values(), expected) << "in place";
    }
  });
}

void expect_gradient_of_output(const AttentionCase& x) {
  SCOPED_TRACE(::testing::Message() << x);
  Stream stream{Device{}};
  Values qkv = qkv_of(x, DType::kF64);
  const ComputedAttention c(stream, x, DType::kF64, qkv);
  const Values gradient = c.dqkv.values();
  Arena scratch(std::size_t{64} << 20);
  const auto loss = [&] {
    const ComputedAttention changed(stream, x, DType::kF64, qkv, nullptr);
    changed.forward(stream, scratch);
    return dot(changed.out.values(), c.dout_values);
  };
  double largest = 0, worst = 0;
  for (const double g : gradient) largest = std::max(largest, std::fabs(g));
  constexpr double kStep = 1e-3;  // the stencil's error is of its fourth power
  for (std::size_t i = 0; i < qkv.size(); i += 7) {
    const double value = qkv[i];
    Values at;
    for (const double step : {-2 * kStep, -kStep, kStep, 2 * kStep}) {
      qkv[i] = value + step;
      at.push_back(loss());
    }
    qkv[i] = value;
    const double slope = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * kStep);
    worst = std::max(worst, std::fabs(slope - gradient[i]));
  }
  EXPECT_LT(worst, 1e-7 * largest);
}

TEST(Attention, HasTheGradientOfItsOutput) {
  if (kTriesCuda) GTEST_SKIP() << "on CUDA it is held against the reference";
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);  // thousands of calls too short to share
  for (const AttentionCase& x :
       {AttentionCase{2, 70, 4, 2, 6, 45}, AttentionCase{1, 70, 2, 1, 6, 45, 9, 0.4, 0.2}})
    expect_gradient_of_output(x);
  omp_set_num_threads(threads);
}

TEST(Attention, CountsUsefulOperationsOnAPlanningStream) {
  const AttentionCase x{2, 10, 4, 2, 8, 0};
  Stream stream;
  const ComputedAttention c(stream, x, DType::kF32, qkv_of(x, DType::kF32), nullptr);
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
  EXPECT_TRUE(std::isnan(c.out.values()[0]));
}

TEST(Attention, CountsWhatAWindowLeaves) {
  std::vector<PlannedOp> ops;
  const auto flops = [&](std::int64_t window) {
    const AttentionCase x{1, 64, 2, 1, 8, 0, window};
    Stream stream;
    const ComputedAttention c(stream, x, DType::kF32, qkv_of(x, DType::kF32), nullptr);
    Tally tally{.ops = &ops};
    Stream planning(Device{}, tally);
    Arena plan = Arena::unbounded();
    ops.clear();
    c.forward(planning, plan);
    return tally.attention_causal;
  };
  const double all = flops(0);
  EXPECT_EQ(ops[0].columns, 64);
  EXPECT_EQ(flops(64), all);
  EXPECT_EQ(flops(1000), all);
  // Of the triangle a smaller one is left out.
  EXPECT_EQ(flops(16), all * (1 - 48.0 * 48 / (64 * 64)));
  EXPECT_EQ(ops[0].columns, 16);
}

TEST(Attention, RefusesWhatDoesNotFit) {
  const AttentionCase x{1, 8, 4, 2, 8, 0};
  Stream stream;
  const ComputedAttention c(stream, x, DType::kF32);
  Arena scratch(1 << 20);
  AttentionShape shape = x.shape();
  shape.seq = 9;
  EXPECT_THROW(attention(stream, scratch, c.out, c.lse, c.qkv, c.first_seen, shape), Error);
  shape = x.shape();
  shape.soft_cap = -1;
  EXPECT_THROW(attention(stream, scratch, c.out, c.lse, c.qkv, c.first_seen, shape), Error);
  shape = x.shape();
  shape.dropout = {.rate = 0.1, .key = 1};
  EXPECT_THROW(attention(stream, scratch, c.out, c.lse, c.qkv, c.first_seen, shape), Error);
  shape = x.shape();
  shape.window = 4, shape.masked = false;
  EXPECT_THROW(attention(stream, scratch, c.out, c.lse, c.qkv, c.first_seen, shape), Error);
  shape = x.shape();
  EXPECT_THROW(window_start(stream, c.first_seen, c.first_seen, 8, 0), Error);
  EXPECT_THROW(window_start(stream, c.first_seen, c.first_seen, 5, 2), Error);
  shape.heads.kv_heads = 3;
  EXPECT_THROW(attention(stream, scratch, c.out, c.lse, c.qkv, c.first_seen, shape), Error);
  const Held wide(stream, {8, 4}, DType::kF64);
  EXPECT_THROW(attention(stream, scratch, c.out, wide, c.qkv, c.first_seen, x.shape()), Error);
  const Held keys(stream, {4, 16}, DType::kF32), values(stream, {4, 16}, DType::kF32);
  const auto cached = [&](std::int64_t first, std::int64_t tokens, std::int64_t window) {
    attention_cached(stream, scratch,
                     {.out = Tensor(c.out).row_slice(0, tokens),
                      .qkv = Tensor(c.qkv).row_slice(0, tokens),
                      .keys = keys,
                      .values = values,
                      .first = first,
                      .heads = x.shape().heads,
                      .window = window});
  };
  EXPECT_NO_THROW(cached(0, 4, 0));
  EXPECT_NO_THROW(cached(4, 2, 3));
  EXPECT_THROW(cached(1, 4, 0), Error);
  EXPECT_THROW(cached(4, 2, 4), Error);
  EXPECT_THROW(cached(-1, 1, 1), Error);
}

TEST(Attention, OnAGpuSaysWhoseKernelsComputeIt) {
  on_every_platform([](Stream& stream) {
    if (!stream.on_cuda()) return;
    const auto said = [&](const AttentionCase& x, DType dtype) {
      return attention_kernels(stream.device(), x.shape(), dtype);
    };
    const AttentionCase whole{2, 128, 4, 2, 64, 0}, cut{2, 128, 4, 2, 64, 30};
    EXPECT_EQ(said(whole, DType::kF32), "our own kernels: cuDNN does not support float32");
    EXPECT_EQ(said(cut, DType::kBf16), "our own kernels: documents are masked");
    for (const DType dtype : {DType::kBf16, DType::kF16}) {
      const std::string of_whole = said(whole, dtype);
      EXPECT_TRUE(of_whole.starts_with("cuDNN ") || of_whole.starts_with("our own kernels: "))
          << of_whole;
    }
  });
}

#ifdef TRIREME_TESTED_ON_CUDA
TEST(Attention, OnAGpuTurnsLogSumExpsRound) {
  on_every_platform([](Stream& stream) {
    for (const auto& [rows, columns] : {std::pair{70, 5}, {5, 70}, {32, 32}, {1, 33}}) {
      const Values values = random_values(3 * rows * columns, 1, DType::kF32);
      const Held from(stream, {3, rows, columns}, DType::kF32, values);
      const Held to(stream, {3, columns, rows}, DType::kF32);
      cuda::transpose(stream, to, from);
      const Values got = to.values();
      for (int i = 0; i < 3 * rows * columns; ++i) {
        const int row = i / columns % rows, column = i % columns, matrix = i / (rows * columns);
        ASSERT_EQ(got[(matrix * columns + column) * rows + row], values[i]) << i;
      }
    }
  });
}
#endif

TEST(Attention, OnAGpuRefusesHeadsWiderThanItsTiles) {
  on_every_platform([](Stream& stream) {
    if (!stream.on_cuda()) return;
    EXPECT_THROW(ComputedAttention(stream, {1, 2, 1, 1, 257, 0}, DType::kBf16), Error);
  });
}

}  // namespace
}  // namespace trireme::ops
