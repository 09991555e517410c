#include "model/ops/strided_copy.h"

#include "model/base/philox.h"
#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

std::int64_t index_of(const Strided& where, std::int64_t i) {
  const std::int64_t at = where.first + i;
  return at / where.run * where.stride + where.start + at % where.run;
}

void expect_copies(Stream& stream, DType dtype, const Shape& shape, const Strided& where,
                   std::int64_t count) {
  const Values x = random_values(count, 1, dtype), old = random_values(shape.count(), 2, dtype);
  const Held whole(stream, shape, dtype, old), part(stream, {count}, dtype, x);
  scatter_strided(stream, whole, part, where);
  Values expected = old;
  for (std::int64_t i = 0; i < count; ++i) expected[index_of(where, i)] = x[i];
  EXPECT_EQ(whole.values(), expected);
  const Held again(stream, {count}, dtype);
  gather_strided(stream, again, whole, where);
  EXPECT_EQ(again.values(), x);
}

TEST(Strided, elements_go_where_the_rectangle_lies_and_come_back) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    // Columns 3 to 8 of 11 in 9 rows, and parts of them that begin and end in a row.
    for (const auto& [first, count] : {std::pair{0, 54}, std::pair{7, 40}, std::pair{5, 1},
                                       std::pair{53, 1}, std::pair{12, 0}}) {
      expect_copies(stream, dtype, {9, 11}, {first, 6, 11, 3}, count);
    }
  });
}

TEST(Strided, columns_of_words_of_any_size_come_back) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const int unit : {8, 4, 2, 1}) {  // elements that all extents are multiples of
      expect_copies(stream, dtype, {9, 11 * unit}, {7 * unit, 6 * unit, 11 * unit, 3 * unit},
                    40 * unit);
      expect_copies(stream, dtype, {9, 88}, {8, 48, 88, 24 + unit}, 320);
    }
  });
}

TEST(Strided, a_part_beyond_the_whole_is_refused) {
  Stream stream;
  const Held whole(stream, {20}, DType::kF32), part(stream, {10}, DType::kF32);
  EXPECT_NO_THROW(gather_strided(stream, part, whole, {0, 5, 10, 5}));
  EXPECT_THROW(gather_strided(stream, part, whole, {1, 5, 10, 5}), Error);
  EXPECT_THROW(scatter_strided(stream, whole, part, {0, 5, 10, 6}), Error);
}

Values rounded_by(Stream& stream, const Values& x, const StochasticRounding& how,
                  double unless_nan = 1) {
  const auto count = static_cast<std::int64_t>(x.size());
  const Held from(stream, {count}, DType::kF32, x), one(stream, {1}, DType::kF32, {unless_nan});
  const Held to(stream, {count}, DType::kBf16, Values(x.size(), 3.0));
  round_stochastically(stream, to, from, one, how);
  return to.values();
}

TEST(RoundStochastically, takes_the_word_of_philox_that_belongs_to_the_element) {
  on_every_platform([](Stream& stream) {
    const StochasticRounding how{random_key(7, "a purpose"), 5, {13, 600, 2000, 70}};
    const Values x = random_values(3001, 1, DType::kF32);
    const Values got = rounded_by(stream, x, how);
    int up = 0;
    for (std::int64_t i = 0; i < 3001; ++i) {
      const auto index = static_cast<std::uint64_t>(index_of(how.where, i));
      const std::uint32_t word = philox(how.key, index / 4, how.update)[index % 4];
      const auto value = static_cast<float>(x[i]);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, 4);
      Bf16 expected;
      expected.bits = static_cast<std::uint16_t>((bits + (word >> 16)) >> 16);
      ASSERT_EQ(got[i], static_cast<double>(float(expected))) << i;
      up += expected.bits != bits >> 16;
    }
    EXPECT_NEAR(up, 1500, 120);  // more than four deviations
  });
}

TEST(RoundStochastically, is_right_in_the_mean) {
  on_every_platform([](Stream& stream) {
    const Values x(40000, 1 + 0.3 * 0x1p-7);  // three tenths of the way to the next bfloat16
    double sum = 0;
    for (const double value : rounded_by(stream, x, {.key = 3, .where = {0, 40000, 40000, 0}})) {
      EXPECT_TRUE(value == 1 || value == 1 + 0x1p-7);
      sum += (value - 1) * 0x1p7;
    }
    EXPECT_NEAR(sum / 40000, 0.3, 0.01);  // four deviations
  });
}

TEST(RoundStochastically, keeps_what_bfloat16_holds_and_changes_nothing_for_nan) {
  on_every_platform([](Stream& stream) {
    Values x = random_values(1000, 1, DType::kBf16);
    x[10] = kInfinity;
    x[11] = -kInfinity;
    const StochasticRounding how{.key = 3, .where = {0, 1000, 1000, 0}};
    EXPECT_EQ(rounded_by(stream, x, how), x);
    EXPECT_EQ(rounded_by(stream, x, how, kNan), Values(1000, 3.0));
    x[500] = kNan;
    const Values got = rounded_by(stream, x, how);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i == 500);
  });
}

TEST(RoundStochastically, an_element_has_its_bits_whoever_rounds_it) {
  on_every_platform([](Stream& stream) {
    const Values x = random_values(5000, 1, DType::kF32);
    StochasticRounding how{.key = 3, .where = {0, 5000, 5000, 0}};
    const Values all = rounded_by(stream, x, how);
    for (const auto& [first, count] :
         {std::pair{1, 4000}, std::pair{4321, 7}, std::pair{259, 514}}) {
      how.where.first = first;
      const Values part = rounded_by(stream, Values(&x[first], &x[first + count]), how);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + first));
    }
  });
}

}  // namespace
}  // namespace trireme::ops
