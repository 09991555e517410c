#include "model/ops/gemm.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "model/base/file.h"
#include "model/ops/cpu/gemm_engine.h"
#include "tests/model/ops/op_test.h"
#include "tests/model/ops/random_tensor.h"

namespace trireme::ops {
namespace {

using cpu::GemmEngine;
using cpu::GemmLibrary;

struct GemmCase {
  DType in, out;
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  Accumulate accumulate = Accumulate::kReplace;
  bool bias = false;
  std::int64_t slack = 0;  // a is a slice: its rows lie this much further apart
  bool addend = false;
  std::int64_t lda() const { return (transpose_a ? m : k) + slack; }
};

std::string say_case(const GemmCase& x) {
  return say(name_of(x.in), ">", name_of(x.out), " ", x.m, " ", x.n, " ", x.k, " ",
             x.transpose_a ? "t" : "n", x.transpose_b ? "t" : "n",
             x.accumulate == Accumulate::kAdd ? " add" : "", x.bias ? " bias" : "",
             x.slack ? " slice" : "", x.addend ? " addend" : "");
}

struct Operands {
  OwnedTensor a, b, c, bias, addend;
  explicit Operands(const GemmCase& x)
      : a({x.transpose_a ? x.k : x.m, x.lda()}, x.in),
        b(x.transpose_b ? Shape{x.n, x.k} : Shape{x.k, x.n}, x.in),
        c({x.m, x.n}, x.out),
        bias({x.n}, x.in),
        addend({x.m, x.n}, x.out) {
    a.randomize(1), b.randomize(2), c.randomize(3), bias.randomize(4), addend.randomize(5);
  }
  Gemm how(const GemmCase& x) {
    return {x.transpose_a, x.transpose_b, x.accumulate, x.bias ? bias.view() : Tensor{},
            x.addend ? addend.view() : Tensor{}};
  }
};

// Against double sums. Any order of k rounded additions is within k units of the
// accumulator's roundoff of the sum of magnitudes (Higham 2002, section 3.1);
// rounding the result to bfloat16 adds 2^-8 of it, to float16 2^-11.
void expect_product(const GemmCase& x, cpu::GemmEngine* engine) {
  SCOPED_TRACE(say_case(x));
  Operands o(x), before(x);
  Stream stream;
  if (engine == nullptr) {
    gemm(stream, o.c, o.a, o.b, o.how(x));
  } else {
    const cpu::MatMulShape shape{x.transpose_a, x.transpose_b, x.accumulate, x.bias, x.in,
                                 x.out,         x.m,           x.n,          x.k,    x.lda()};
    engine->run({shape, o.a.view().data, o.b.view().data, x.bias ? o.bias.view().data : nullptr,
                 o.c.view().data});
  }
  const double unit = x.in == DType::kF64 ? 0x1p-53 : 0x1p-24;
  const std::vector<double> a = before.a.values(), b = before.b.values(), c = o.c.values();
  const std::vector<double> start_c = before.c.values(), bias = before.bias.values();
  const std::vector<double> addend = before.addend.values();
  double worst = 0;
  for (std::int64_t i = 0; i < x.m; ++i) {
    for (std::int64_t j = 0; j < x.n; ++j) {
      const double start = x.accumulate == Accumulate::kAdd ? start_c[i * x.n + j]
                           : x.bias                         ? bias[j]
                                                            : 0;
      const double added = x.addend ? addend[i * x.n + j] : 0;
      double sum = start + added, magnitude = std::fabs(start) + std::fabs(added);
      for (std::int64_t p = 0; p < x.k; ++p) {
        const double product = a[x.transpose_a ? p * x.lda() + i : i * x.lda() + p] *
                               b[x.transpose_b ? j * x.k + p : p * x.n + j];
        sum += product;
        magnitude += std::fabs(product);
      }
      double allowed = static_cast<double>(x.k + 2) * unit * magnitude;
      // The CPU stores the product before it adds.
      const double stored = std::fabs(sum) + (x.addend ? std::fabs(sum - added) : 0) + allowed;
      if (x.out == DType::kBf16) allowed += 0x1p-8 * stored;
      if (x.out == DType::kF16) allowed += 0x1p-11 * stored + 0x1p-25;
      worst = std::max(worst, std::fabs(c[i * x.n + j] - sum) / allowed);
    }
  }
  EXPECT_LE(worst, 1);
  EXPECT_TRUE(o.a.same_bits(before.a) && o.b.same_bits(before.b) &&
              o.addend.same_bits(before.addend))
      << "an operand changed";
}

std::vector<GemmCase> all_cases() {
  const std::int64_t shapes[][3] = {{1, 1, 1},    {1, 64, 48},  {64, 1, 17},   {3, 5, 7},
                                    {17, 33, 65}, {64, 96, 32}, {130, 70, 257}};
  const DType dtypes[][2] = {{DType::kF32, DType::kF32},   {DType::kF64, DType::kF64},
                             {DType::kBf16, DType::kBf16}, {DType::kBf16, DType::kF32},
                             {DType::kF16, DType::kF16},   {DType::kF16, DType::kF32}};
  std::vector<GemmCase> cases;
  for (const auto& [m, n, k] : shapes) {
    for (const auto& [in, out] : dtypes) {
      for (const bool ta : {false, true}) {
        for (const bool tb : {false, true}) {
          cases.push_back({in, out, m, n, k, ta, tb});
          cases.push_back({in, out, m, n, k, ta, tb, Accumulate::kAdd});
          cases.push_back({in, out, m, n, k, ta, tb, Accumulate::kReplace, true});
        }
      }
    }
  }
  return cases;
}

TEST(Gemm, MultipliesEveryLayoutAndDtypeByTheLibraryItChooses) {
  for (const GemmCase& x : all_cases())
    if (x.m == 17 || x.k == 17) expect_product(x, nullptr);
}

TEST(Gemm, MultipliesByEachLibraryWhenFixed) {
  for (const GemmLibrary library : cpu::kGemmLibraries) {
    SCOPED_TRACE(cpu::name_of(library));
    GemmEngine engine({});
    engine.fix(library);
    for (const GemmCase& x : all_cases()) expect_product(x, &engine);
    EXPECT_TRUE(engine.choices().empty()) << "a fixed engine measured";
  }
}

// Tiles, blocks and threads' rectangles with and without a rest, in every instruction set.
TEST(Gemm, MultipliesByOwnKernelsWhateverIsLeftOver) {
  const std::int64_t shapes[][3] = {{1, 1, 300},  {12, 32, 16},   {24, 64, 512}, {13, 33, 257},
                                    {11, 31, 15}, {5, 1060, 40},  {70, 513, 33}, {8, 96, 260},
                                    {4, 16, 530}, {100, 40, 1030}};
  const int usual = omp_get_max_threads();
  GemmEngine engine({});
  engine.fix(GemmLibrary::kOwn);
  test::on_every_platform([&](Stream&) {
    for (const int threads : {1, 2, 6}) {
      SCOPED_TRACE(say(threads, " threads"));
      omp_set_num_threads(threads);
      for (const auto& [m, n, k] : shapes) {
        for (const bool ta : {false, true}) {
          for (const bool tb : {false, true}) {
            const DType f32 = DType::kF32;
            expect_product({f32, f32, m, n, k, ta, tb, Accumulate::kReplace, true, 3}, &engine);
            expect_product({f32, f32, m, n, k, ta, tb, Accumulate::kAdd}, &engine);
          }
        }
      }
    }
  });
  omp_set_num_threads(usual);
}

TEST(Gemm, GivesTheSameBitsByOwnKernelsOnAnyNumberOfThreads) {
  const int usual = omp_get_max_threads();
  const GemmCase x{DType::kF32, DType::kF32, 150, 210, 600, false, true, Accumulate::kAdd};
  const cpu::MatMulShape shape{false, true, x.accumulate, false, x.in, x.out, x.m, x.n, x.k, x.k};
  Operands alone(x);
  for (const int threads : {1, 2, 3, 8}) {
    omp_set_num_threads(threads);
    GemmEngine engine({});
    engine.fix(GemmLibrary::kOwn);
    Operands more(x);
    Operands& o = threads == 1 ? alone : more;
    engine.run({shape, o.a.view().data, o.b.view().data, nullptr, o.c.view().data});
    EXPECT_TRUE(alone.c.same_bits(o.c)) << threads << " threads";
  }
  omp_set_num_threads(usual);
}

TEST(Gemm, WidensSixteenBitsBlockByBlock) {
  GemmEngine engine({});
  engine.fix(GemmLibrary::kOpenBlas);
  for (const DType in : {DType::kBf16, DType::kF16}) {
    for (const bool transposed : {false, true}) {
      for (const DType out : {in, DType::kF32}) {
        expect_product({in, out, 515, 30, 1030, transposed, !transposed, Accumulate::kAdd},
                       &engine);
        expect_product({in, out, 9, 1100, 520, transposed, !transposed, Accumulate::kReplace, true},
                       &engine);
      }
    }
  }
}

TEST(Gemm, GivesTheSameBitsEveryTime) {
  for (const GemmLibrary library : cpu::kGemmLibraries) {
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      GemmEngine engine({});
      engine.fix(library);
      const GemmCase x{dtype, DType::kF32, 300, 200, 500, true, false};
      Operands first(x), again(x);
      const auto run = [&](Operands& o) {
        engine.run(
            {{true, false, Accumulate::kReplace, false, dtype, DType::kF32, x.m, x.n, x.k, x.m},
             o.a.view().data,
             o.b.view().data,
             nullptr,
             o.c.view().data});
      };
      run(first);
      for (int i = 0; i < 10; ++i) {
        again.c.fill(-1);
        run(again);
        ASSERT_TRUE(first.c.same_bits(again.c)) << cpu::name_of(library) << " " << name_of(dtype);
      }
    }
  }
}

TEST(Gemm, TakesTheProductOfNothingAsZero) {
  Stream stream;
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    OwnedTensor a({0, 4}, dtype), b({0, 3}, dtype), c({4, 3}, DType::kF32);
    c.fill(2);
    gemm(stream, c, a, b, {.transpose_a = true, .accumulate = Accumulate::kAdd});
    EXPECT_EQ(c.get(5), 2);
    gemm(stream, c, a, b, {.transpose_a = true});
    EXPECT_EQ(c.get(5), 0);
    OwnedTensor bias({3}, dtype);
    bias.fill(0.5);
    gemm(stream, c, a, b, {.transpose_a = true, .bias = bias});
    EXPECT_EQ(c.get(11), 0.5);
  }
  OwnedTensor none({0, 3}, DType::kF32), x({0, 4}, DType::kF32), w({4, 3}, DType::kF32);
  gemm(stream, none, x, w, {});
}

TEST(Gemm, CountsOnAPlanningStreamAndReadsNothing) {
  Tally tally;
  Stream stream(Device{}, tally);
  const auto at = [](Shape shape) {
    return Tensor{reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40), DType::kF32, shape, {}};
  };
  gemm(stream, at({5, 7}), at({5, 11}), at({7, 11}), {.transpose_b = true});
  EXPECT_EQ(tally.matmul, 2.0 * 5 * 7 * 11);
}

TEST(Gemm, AddsATensorToAProductAndLeavesItAsItIs) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBf16, DType::kF16}) {
    for (const bool bias : {false, true}) {
      expect_product({dtype, dtype, 17, 33, 65, false, true, Accumulate::kReplace, bias, 0, true},
                     nullptr);
    }
  }
}

TEST(Gemm, RefusesWhatDoesNotFit) {
  Stream stream;
  OwnedTensor a({4, 6}, DType::kF32), b({6, 5}, DType::kF32), c({4, 5}, DType::kF32);
  OwnedTensor bias({4}, DType::kF32), wide({6, 5}, DType::kF64), narrow({4, 5}, DType::kBf16);
  EXPECT_THROW(gemm(stream, c, a, b, {.transpose_b = true}), Error);
  EXPECT_THROW(gemm(stream, c, b, a, {}), Error);
  EXPECT_THROW(gemm(stream, c, a, wide, {}), Error);
  EXPECT_THROW(gemm(stream, narrow, a, b, {}), Error);
  EXPECT_THROW(gemm(stream, c, a, b, {.bias = bias}), Error);
  OwnedTensor right({5}, DType::kF32);
  EXPECT_THROW(gemm(stream, c, a, b, {.accumulate = Accumulate::kAdd, .bias = right}), Error);
  OwnedTensor addend({4, 5}, DType::kF32);
  EXPECT_THROW(gemm(stream, c, a, b, {.accumulate = Accumulate::kAdd, .addend = addend}), Error);
  EXPECT_THROW(gemm(stream, c, a, b, {.addend = narrow}), Error);
  EXPECT_THROW(gemm(stream, c, a, b, {.addend = c}), Error);
}

class GemmCacheTest : public ::testing::Test {
 protected:
  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) /
      say("gemm-cache-", ::getpid(), "-",
          ::testing::UnitTest::GetInstance()->current_test_info()->name());
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
};

TEST_F(GemmCacheTest, LetsTheFirstToSettleWin) {
  GemmCache first(folder_, "machine a", cpu::is_library),
      second(folder_, "machine a", cpu::is_library);
  EXPECT_FALSE(first.find("shape"));
  EXPECT_FALSE(second.find("shape"));
  EXPECT_EQ(first.settle("shape", "openblas"), "openblas");
  EXPECT_EQ(second.settle("shape", "onednn"), "openblas");
  EXPECT_EQ(second.settle("other", "onednn"), "onednn");
  GemmCache later(folder_, "machine a", cpu::is_library);
  EXPECT_EQ(later.find("shape"), "openblas");
  EXPECT_EQ(later.find("other"), "onednn");
  GemmCache elsewhere(folder_, "machine b", cpu::is_library);
  EXPECT_FALSE(elsewhere.find("shape"));
}

TEST_F(GemmCacheTest, WritesOverAFileThatIsNotOne) {
  for (const char* text : {"{\"m\": [tru", "{\"m\": {\"shape\": \"mkl\"}}"}) {
    GemmCache(folder_, "m", cpu::is_library).settle("shape", "onednn");
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (entry.path().extension() == ".json") std::ofstream(entry.path()) << text;
    }
    GemmCache broken(folder_, "m", cpu::is_library);
    EXPECT_FALSE(broken.find("shape")) << text;
    EXPECT_EQ(broken.settle("shape", "openblas"), "openblas") << text;
    EXPECT_EQ(GemmCache(folder_, "m", cpu::is_library).find("shape"), "openblas") << text;
  }
}

TEST_F(GemmCacheTest, DoesWithoutAFolderItCannotMake) {
  std::ofstream(folder_) << "a file where the folder should be";
  GemmCache cache(folder_ / "below", "m", cpu::is_library);
  EXPECT_FALSE(cache.find("shape"));
  EXPECT_EQ(cache.settle("shape", "onednn"), "onednn");
  EXPECT_EQ(cache.settle("shape", "openblas"), "openblas");
}

TEST_F(GemmCacheTest, KeepsWhatAnEngineMeasured) {
  ChoiceTable measured;
  {
    GemmEngine engine(folder_);
    expect_product({DType::kF32, DType::kF32, 40, 50, 60, true, false, Accumulate::kAdd}, &engine);
    expect_product({DType::kF32, DType::kF32, 40, 50, 60, false, true}, &engine);
    measured = engine.choices();
    EXPECT_FALSE(measured.empty());
  }
  GemmEngine engine(folder_);
  expect_product({DType::kF32, DType::kF32, 40, 50, 60, true, false, Accumulate::kAdd}, &engine);
  expect_product({DType::kF32, DType::kF32, 40, 50, 60, false, true}, &engine);
  EXPECT_EQ(engine.choices(), measured);
}

TEST_F(GemmCacheTest, GivesAResumedRunItsOwnChoices) {
  GemmEngine first(folder_);
  expect_product({DType::kF32, DType::kF32, 40, 50, 60, false, true}, &first);
  // Another library than was measured, as another machine's noise might have had it.
  std::string table = first.choices().json();
  const bool openblas = table.find("\"openblas\"") != std::string::npos;
  const std::string to = openblas ? "\"onednn\"" : "\"openblas\"";
  const std::size_t end = table.rfind('"') + 1, start = table.rfind('"', end - 2);
  table.replace(start, end - start, to);
  GemmEngine resumed(folder_);
  resumed.use(ChoiceTable::parse(table, cpu::is_library));
  expect_product({DType::kF32, DType::kF32, 40, 50, 60, false, true}, &resumed);
  EXPECT_EQ(resumed.choices(), ChoiceTable::parse(table, cpu::is_library));
  EXPECT_NE(resumed.choices(), first.choices());
}

TEST(GemmChoices, SharesAChoiceAmongNearExtents) {
  cpu::MatMulShape shape{.m = 256, .n = 2304, .k = 768};
  const std::string key = cpu::choice_key(shape);
  EXPECT_EQ(key, "float32 nn 256 2560 768");
  shape.n = 2500;
  EXPECT_EQ(cpu::choice_key(shape), key);
  shape.n = 2561;
  EXPECT_NE(cpu::choice_key(shape), key);
  EXPECT_EQ(cpu::choice_key({.transpose_a = true,
                             .accumulate = Accumulate::kAdd,
                             .in = DType::kBf16,
                             .out = DType::kF32,
                             .m = 7,
                             .n = 8,
                             .k = 9}),
            "bfloat16>float32 tn 7 8 10 add");
}

}  // namespace
}  // namespace trireme::ops
