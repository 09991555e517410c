#include "model/ops/part_attention.h"

#include <memory>
#include <utility>

#include "model/device/imagined.h"
#include "tests/model/ops/computed_part.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

double unit_of(DType dtype) {
  return dtype == DType::kF64 ? 1e-14 : dtype == DType::kF32 ? 4e-6 : roundoff(dtype);
}
double largest_of(const Values& values) {
  double largest = 1;
  for (const double value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

// Queries of some rows and keys of some (empty: all), as if those were all there are. Errors are
// those of attention_test.cpp.
void expect_part(const AttentionCase& x, DType dtype, const Rows& queries, const Rows& keys) {
  const Heads heads = x.shape().heads;
  const Rows key_rows = keys.empty() ? all_rows(x) : keys;
  const AttentionReference r(x, qkv_of(x, dtype),
                             uniform_values(x.tokens() * heads.query(), 2, dtype),
                             set_of(x, queries), set_of(x, key_rows));
  const double unit = unit_of(dtype), largest = largest_of(r.dqkv);
  const std::vector<std::int64_t> tokens = tokens_of(x, queries);
  const Values out = taken(r.out, heads.query(), tokens, 0, heads.query());
  const Values lse = taken(r.lse, heads.heads, tokens, 0, heads.heads);
  on_every_platform([&](Stream& stream) {
    const ComputedPart part(stream, x, dtype, qkv_of(x, dtype), queries, keys);
    part.forward();
    part.backward(part.out, part.lse);
    // What dropout keeps of values of at most 1 grows by its scale, and so does the rounding.
    EXPECT_LE(furthest(part.out.values(), out), unit * x.shape().dropout.scale());
    EXPECT_LE(furthest(part.lse.values(), lse), dtype == DType::kF64 ? 1e-14 : 1e-5);
    EXPECT_LE(furthest(part.dq.values(), queries_of(x, r.dqkv, queries)), 2 * unit * largest);
    EXPECT_LE(furthest(part.dkv.values(), keys_of(x, r.dqkv, key_rows)), 2 * unit * largest);
  });
}

// The sequence is a multiple of 4 and 6.
std::vector<AttentionCase> cases_of_parts() {
  if (kTriesCuda) {
    return {{2, 96, 4, 2, 16, 29},         {1, 264, 2, 1, 64, 0, 65},
            {1, 144, 2, 1, 128, 0},        {1, 24, 1, 1, 40, 0},
            {1, 132, 2, 1, 40, 0, 0, 0.5}, {2, 96, 2, 1, 64, 50, 40, 1, 0.3}};
  }
  return {{1, 12, 1, 1, 16, 0},
          {2, 96, 6, 2, 16, 0},
          {1, 144, 2, 1, 40, 0},
          {1, 264, 2, 1, 64, 0},
          {1, 144, 1, 1, 128, 0},
          {2, 96, 2, 1, 16, 29},
          {2, 96, 2, 2, 16, 0, 17},
          {1, 264, 2, 1, 16, 100, 65},
          {2, 96, 2, 1, 16, 0, 0, 0.5},
          {2, 96, 4, 2, 16, 0, 0, 0, 0.3},
          {1, 264, 2, 1, 64, 50, 40, 1, 0.1},
          {1, 780, 1, 1, 16, 0}};
}

// By one thread, as thousands of calls are too short to share.
class PartDtype : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override { omp_set_num_threads(1); }
  void TearDown() override { omp_set_num_threads(usual_); }

 private:
  int usual_ = omp_get_max_threads();
};
INSTANTIATE_TEST_SUITE_P(PartAttention, PartDtype, ::testing::ValuesIn(kFloats),
                         [](const auto& of) { return name_of(of.param); });

// Over all keys and over each rank's.
TEST_P(PartDtype, IsThatOfWholeMatrices) {
  for (const AttentionCase& x : cases_of_parts()) {
    for (const Deal deal : kDeals) {
      SCOPED_TRACE(::testing::Message() << x << " deal " << static_cast<int>(deal));
      const std::vector<Rows> ranks = dealt(deal, x, deal == Deal::kShuffled ? 3 : 2);
      for (const Rows& queries : ranks) {
        expect_part(x, GetParam(), queries, {});
        for (const Rows& keys : ranks)
          if (x.dropout == 0) expect_part(x, GetParam(), queries, keys);
      }
    }
  }
}

// A sum of rows, in float64.
struct Sum {
  std::int64_t width;
  Values all;
  Sum(std::int64_t tokens, std::int64_t columns) : width(columns), all(tokens * columns) {}
  void add(const Values& values, const std::vector<std::int64_t>& tokens) {
    for (std::size_t i = 0; i < values.size(); ++i)
      all[tokens[i / width] * width + i % width] += values[i];
  }
};

// Each rank's queries over one rank's keys at a time, the ranks' own first.
void expect_ring(Stream& stream, const AttentionCase& x, DType dtype, const AttentionReference& r,
                 const std::vector<Rows>& ranks) {
  const Heads heads = x.shape().heads;
  const Values qkv = qkv_of(x, dtype);
  const DType sums = accumulator_of(dtype);
  const double unit = unit_of(dtype), largest = largest_of(r.dqkv);
  Sum dq(x.tokens(), heads.query()), dkv(x.tokens(), heads.qkv() - heads.query());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Rows& queries = ranks[rank];
    const std::vector<std::int64_t> tokens = tokens_of(x, queries);
    const auto count = static_cast<std::int64_t>(tokens.size());
    std::vector<std::unique_ptr<ComputedPart>> parts;
    const Held sum(stream, {count, heads.query()}, sums, Values(count * heads.query()));
    const Held sum_lse(stream, {count, heads.heads}, sums, Values(count * heads.heads, -kInfinity));
    for (std::size_t step = 0; step < ranks.size(); ++step) {
      parts.push_back(std::make_unique<ComputedPart>(stream, x, dtype, qkv, queries,
                                                     ranks[(rank + step) % ranks.size()]));
      parts.back()->forward();
      merge_attention(stream, sum, sum_lse, parts.back()->out, parts.back()->lse, heads);
    }
    // Each part was rounded to the dtype.
    EXPECT_LE(furthest(sum.values(), taken(r.out, heads.query(), tokens, 0, heads.query())), unit);
    EXPECT_LE(furthest(sum_lse.values(), taken(r.lse, heads.heads, tokens, 0, heads.heads)),
              dtype == DType::kF64 ? 1e-14 : 1e-5);
    Values merged = sum.values();
    for (double& value : merged) value = rounded(value, dtype);
    const Held out(stream, {count, heads.query()}, dtype, merged);
    for (std::size_t step = 0; step < ranks.size(); ++step) {
      const ComputedPart& part = *parts[step];
      part.backward(out, sum_lse);
      dq.add(part.dq.values(), tokens);
      dkv.add(part.dkv.values(), tokens_of(x, ranks[(rank + step) % ranks.size()]));
    }
  }
  // One more rounding for each part.
  const double allowed = (1 + static_cast<double>(ranks.size())) * unit * largest;
  EXPECT_LE(furthest(dq.all, queries_of(x, r.dqkv, all_rows(x))), allowed);
  EXPECT_LE(furthest(dkv.all, keys_of(x, r.dqkv, all_rows(x))), allowed);
}

TEST_P(PartDtype, OfAllKeysIsTheirMerge) {
  for (const AttentionCase& x : cases_of_parts()) {
    if (x.dropout > 0) continue;
    const AttentionReference r(x, qkv_of(x, GetParam()),
                               uniform_values(x.tokens() * x.shape().heads.query(), 2, GetParam()));
    on_every_platform([&](Stream& stream) {
      for (const Deal deal : kDeals) {
        SCOPED_TRACE(::testing::Message() << x << " deal " << static_cast<int>(deal));
        expect_ring(stream, x, GetParam(), r, dealt(deal, x, deal == Deal::kShuffled ? 2 : 3));
      }
    });
  }
}

TEST_P(PartDtype, OfQueriesThatSeeNoKeyIsNothing) {
  on_every_platform([](Stream& stream) {
    const AttentionCase x{2, 96, 2, 1, 16, 0};
    const std::vector<Rows> ranks = dealt(Deal::kBlocks, x, 2);
    const ComputedPart part(stream, x, GetParam(), qkv_of(x, GetParam()), ranks[0], ranks[1]);
    part.forward();
    part.backward(part.out, part.lse);
    for (const Held* const zeros : {&part.out, &part.dq, &part.dkv})
      for (const double value : zeros->values()) ASSERT_EQ(value, 0);
    for (const double value : part.lse.values()) ASSERT_EQ(value, -kInfinity);
  });
}

// So that layouts which gather keys differ in nothing but the gradients of keys and values.
TEST_P(PartDtype, OnACpuHasTheBitsOfTheWholeSequence) {
  if (kTriesCuda) GTEST_SKIP() << "a GPU's tiles of queries are other ones";
  on_every_platform([](Stream& stream) {
    for (const AttentionCase& x :
         {AttentionCase{2, 256, 2, 1, 16, 0}, AttentionCase{1, 768, 2, 1, 24, 0},
          AttentionCase{1, 512, 2, 2, 16, 100, 70}, AttentionCase{2, 256, 4, 2, 40, 0, 0, 1, 0.2},
          AttentionCase{1, 204, 2, 1, 64, 90}}) {
      const Heads heads = x.shape().heads;
      const ComputedAttention whole(stream, x, GetParam());
      const Values of_out = whole.out.values(), of_lse = whole.lse.values(),
                   of_dqkv = whole.dqkv.values();
      for (const Deal deal : kDeals) {
        SCOPED_TRACE(::testing::Message() << x << " deal " << static_cast<int>(deal));
        for (const Rows& queries : dealt(deal, x, 2)) {
          const ComputedPart part(stream, x, GetParam(), qkv_of(x, GetParam()), queries);
          part.forward();
          part.backward(part.out, part.lse);
          const std::vector<std::int64_t> tokens = tokens_of(x, queries);
          EXPECT_EQ(part.out.values(), taken(of_out, heads.query(), tokens, 0, heads.query()));
          EXPECT_EQ(part.lse.values(), taken(of_lse, heads.heads, tokens, 0, heads.heads));
          EXPECT_EQ(part.dq.values(), queries_of(x, of_dqkv, queries));
        }
      }
    }
  });
}

TEST_P(PartDtype, HasTheSameBitsWithAnyNumberOfThreads) {
  Stream stream{Device{}};
  for (const AttentionCase& x :
       {AttentionCase{2, 264, 4, 4, 16, 0}, AttentionCase{1, 480, 2, 1, 24, 150, 90},
        AttentionCase{1, 144, 1, 1, 40, 0}}) {
    SCOPED_TRACE(::testing::Message() << x);
    const std::vector<Rows> ranks = dealt(Deal::kShuffled, x, 2);
    std::vector<std::vector<std::byte>> alone;
    for (const int n : {1, 2, 3, 5, 16}) {
      omp_set_num_threads(n);
      const ComputedPart part(stream, x, GetParam(), qkv_of(x, GetParam()), ranks[1], ranks[0]);
      part.forward();
      part.backward(part.out, part.lse);
      const std::vector<std::vector<std::byte>> bits{part.out.bits(), part.lse.bits(),
                                                     part.dq.bits(), part.dkv.bits()};
      if (n == 1) alone = bits;
      EXPECT_TRUE(bits == alone) << n;
    }
  }
}

TEST_P(PartDtype, HasTheSameBitsInEveryRun) {
  on_every_platform([](Stream& stream) {
    const AttentionCase x{2, 96, 4, 2, 64, 0};
    const std::vector<Rows> ranks = dealt(Deal::kBothEnds, x, 2);
    std::vector<std::vector<std::byte>> first;
    for (int run = 0; run < 2; ++run) {
      const ComputedPart part(stream, x, GetParam(), qkv_of(x, GetParam()), ranks[0], ranks[1]);
      part.forward();
      part.backward(part.out, part.lse);
      const std::vector<std::vector<std::byte>> bits{part.out.bits(), part.lse.bits(),
                                                     part.dq.bits(), part.dkv.bits()};
      if (run == 0) first = bits;
      EXPECT_TRUE(bits == first);
    }
  });
}

TEST_P(PartDtype, ComputesEachGradientAloneToo) {
  on_every_platform([](Stream& stream) {
    const AttentionCase x{2, 96, 4, 2, 40, 30};
    for (const Deal deal : kDeals) {
      const std::vector<Rows> ranks = dealt(deal, x, 2);
      const ComputedPart part(stream, x, GetParam(), qkv_of(x, GetParam()), ranks[0], ranks[1]);
      part.forward();
      part.backward(part.out, part.lse);
      const Values dq = part.dq.values(), dkv = part.dkv.values();
      const Held dq_alone(stream, Tensor(part.dq).shape, GetParam());
      const Held dkv_alone(stream, Tensor(part.dkv).shape, GetParam());
      part.backward(part.out, part.lse, dq_alone, {});
      part.backward(part.out, part.lse, {}, dkv_alone);
      EXPECT_EQ(dq_alone.values(), dq);
      EXPECT_EQ(dkv_alone.values(), dkv);
    }
  });
}

// A product with a masked element would be zero times NaN. No kernel has tiles of more than 192
// queries or 128 keys; a CPU's have 64 and pass over the keys between two chunks of a tile's.
TEST_P(PartDtype, SkipsTilesOfKeysThatNoQuerySees) {
  on_every_platform([](Stream& stream) {
    const AttentionCase x{1, 640, 1, 1, 64, 0, 64};
    const auto expect_finite = [&](const Rows& queries, std::int64_t first, std::int64_t end) {
      const std::int64_t row = x.shape().heads.qkv();
      Values qkv = qkv_of(x, GetParam());
      for (std::int64_t i = first * row; i < end * row; ++i)
        if (i % row >= 64) qkv[i] = kNan;
      const ComputedPart part(stream, x, GetParam(), qkv, queries);
      part.forward();
      part.backward(part.out, part.lse);
      for (const Held* const all : {&part.out, &part.dq, &part.dkv})
        for (const double value : all->values()) ASSERT_TRUE(std::isfinite(value));
    };
    Rows late(1), ends(1);
    for (std::int64_t row = 0; row < x.seq; ++row) {
      if (row >= 400) late[0].push_back(row);
      if (row < 32 || row >= 608) ends[0].push_back(row);
    }
    expect_finite(late, 0, 100);
    if (!kTriesCuda) expect_finite(ends, 64, 512);
  });
}

TEST_P(PartDtype, StaysFiniteOverScoresOfAnySize) {
  on_every_platform([](Stream& stream) {
    const AttentionCase x{1, 96, 1, 1, 16, 30};
    Values large = qkv_of(x, GetParam());
    for (double& value : large) value = rounded(200 * value, GetParam());
    const std::vector<Rows> ranks = dealt(Deal::kBothEnds, x, 2);
    const ComputedPart part(stream, x, GetParam(), large, ranks[0], ranks[1]);
    part.forward();
    part.backward(part.out, part.lse);
    for (const double value : part.out.values()) ASSERT_LE(std::fabs(value), 201);
    for (const Held* const gradient : {&part.dq, &part.dkv})
      for (const double value : gradient->values()) ASSERT_TRUE(std::isfinite(value));
  });
}

// Of rows that saw keys before, in the part, in both and in neither, and of any difference.
TEST_P(PartDtype, MergesByLogSumExp) {
  on_every_platform([](Stream& stream) {
    const Heads heads{3, 1, 20};
    const DType dtype = GetParam(), sums = accumulator_of(dtype);
    const Values lses[] = {{-kInfinity, -kInfinity, 0.5},
                           {0.5, 3, -kInfinity},
                           {-2, 1, 90},
                           {-1000, 1000, 10},
                           {10, 10.0625, -3},
                           {-kInfinity, -kInfinity, -kInfinity}};
    constexpr std::int64_t kTokens = 36;
    Values before, part;
    for (std::int64_t token = 0; token < kTokens; ++token) {
      before.insert(before.end(), lses[token / 6].begin(), lses[token / 6].end());
      part.insert(part.end(), lses[token % 6].begin(), lses[token % 6].end());
    }
    const std::int64_t width = heads.width;
    Values sum = uniform_values(kTokens * heads.query(), 1, sums), expected, expected_lse;
    Values out = uniform_values(kTokens * heads.query(), 2, dtype);
    for (std::size_t row = 0; row < before.size(); ++row) {
      const double top = std::max(before[row], part[row]);
      const double a = std::isinf(before[row]) ? 0 : std::exp(before[row] - top);
      const double b = std::isinf(part[row]) ? 0 : std::exp(part[row] - top);
      for (std::int64_t i = 0; i < width; ++i) {
        double &x = sum[row * width + i], &y = out[row * width + i];
        if (a == 0 && std::isinf(before[row])) x = 0;
        if (b == 0 && std::isinf(part[row])) y = 0;
        expected.push_back(a + b == 0 ? 0 : (a * x + b * y) / (a + b));
      }
      expected_lse.push_back(top + std::log(a + b));
    }
    const Held to(stream, {kTokens, heads.query()}, sums, sum);
    const Held to_lse(stream, {kTokens, heads.heads}, sums, before);
    merge_attention(stream, to, to_lse, Held(stream, {kTokens, heads.query()}, dtype, out),
                    Held(stream, {kTokens, heads.heads}, sums, part), heads);
    expect_values(to, expected, 6);
    expect_values(to_lse, expected_lse, 4);
  });
}

TEST(PartAttention, CountsUsefulOperationsOnAPlanningStream) {
  std::vector<PlannedOp> ops;
  Tally tally{.ops = &ops};
  Stream stream;
  const auto plan_of = [&](Device device, std::int64_t window, const Rows& queries,
                           const Rows& keys) {
    const AttentionCase x{2, 96, 4, 2, 8, 0, window};
    const ComputedPart part(stream, x, DType::kF32, qkv_of(x, DType::kF32), queries, keys);
    Stream planning(device, tally);
    Arena plan = Arena::unbounded(device);
    ops.clear();
    part_attention(planning, plan, part.out, part.lse, part.part(), part.shape());
    part_attention_backward(
        planning, plan,
        {.dq = part.dq, .dkv = part.dkv, .dout = part.dout, .out = part.out, .lse = part.lse},
        part.part(), part.shape());
    EXPECT_TRUE(std::isnan(part.out.values()[0]));
    EXPECT_GT(plan.peak(), 0u);
  };
  const std::vector<Rows> ranks = dealt(Deal::kBothEnds, {2, 96, 4, 2, 8, 0}, 2);
  const double heads = 2.0 * 2 * 4 * 8;  // of both sequences, a multiply and an add
  plan_of(Device{}, 0, ranks[0], {});
  EXPECT_EQ(ops[0].flops, 2 * heads * 48 * 96 / 2);
  EXPECT_EQ(ops[0].columns, 96);
  EXPECT_EQ(ops[1].flops, 2 * ops[0].flops);
  EXPECT_EQ(ops[1].recomputed_flops, ops[0].flops / 2);
  EXPECT_EQ(std::string(ops[0].name), "attention");
  plan_of(Device{}, 0, ranks[0], ranks[1]);
  EXPECT_EQ(ops[0].flops, 2 * heads * 48 * 48 / 2);
  plan_of(imagined_gpu(), 10, ranks[0], {});
  EXPECT_EQ(ops[0].flops, 2 * heads * 48 * 10);
  EXPECT_EQ(ops[0].columns, 10);
  EXPECT_EQ(std::string(ops[0].name), kOwnAttention);
}

TEST(PartAttention, RefusesWhatDoesNotFit) {
  const AttentionCase x{1, 8, 4, 2, 8, 0};
  Stream stream;
  Arena scratch(1 << 20);
  const std::vector<Rows> ranks = dealt(Deal::kBlocks, x, 2);
  const ComputedPart c(stream, x, DType::kF32, qkv_of(x, DType::kF32), ranks[1], ranks[0]);
  const auto forward = [&](const PartAttention& part, const AttentionShape& shape) {
    part_attention(stream, scratch, c.out, c.lse, part, shape);
  };
  EXPECT_NO_THROW(forward(c.part(), c.shape()));
  PartAttention part = c.part();
  part.keys = 5;
  EXPECT_THROW(forward(part, c.shape()), Error);
  part.keys = 0;
  EXPECT_THROW(forward(part, c.shape()), Error);
  part = c.part(), part.key_rows = Tensor(c.key_rows).slice(0, 3);
  EXPECT_THROW(forward(part, c.shape()), Error);
  part = c.part(), part.rows = Tensor(c.rows).slice(0, 3);
  EXPECT_THROW(forward(part, c.shape()), Error);
  AttentionShape shape = c.shape();
  shape.seq = 5;
  EXPECT_THROW(forward(c.part(), shape), Error);
  shape = c.shape(), shape.window = 3, shape.masked = false;
  EXPECT_THROW(forward(c.part(), shape), Error);
  shape = c.shape(), shape.dropout.rate = 0.1;
  EXPECT_THROW(forward(c.part(), shape), Error);
  part = c.part(), part.key_rows = {};
  EXPECT_NO_THROW(forward(part, shape));
  const auto backward = [&](PartAttentionBackward how) {
    part_attention_backward(stream, scratch, how, c.part(), c.shape());
  };
  const PartAttentionBackward how{
      .dq = c.dq, .dkv = c.dkv, .dout = c.dout, .out = c.out, .lse = c.lse};
  EXPECT_NO_THROW(backward(how));
  PartAttentionBackward wrong = how;
  wrong.dq = c.qkv;
  EXPECT_THROW(backward(wrong), Error);
  wrong = how, wrong.dkv = c.lse;
  EXPECT_THROW(backward(wrong), Error);
  wrong = how, wrong.dout = c.lse;
  EXPECT_THROW(backward(wrong), Error);
  wrong = how, wrong.dq = wrong.dkv = {};
  EXPECT_THROW(backward(wrong), Error);
  EXPECT_NO_THROW(merge_attention(stream, c.dq, c.lse, c.out, c.lse, x.shape().heads));
  EXPECT_THROW(merge_attention(stream, c.qkv, c.lse, c.out, c.lse, x.shape().heads), Error);
  EXPECT_THROW(merge_attention(stream, c.dq, c.rows, c.out, c.lse, x.shape().heads), Error);
}

}  // namespace
}  // namespace trireme::ops
