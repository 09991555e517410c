#include "model/ops/table_copy.h"

#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t kRows = 9;

TEST(TableCopy, columns_go_where_they_shall_and_nothing_else_changes) {
  struct Case {
    std::int64_t to_width, to_first, from_width, from_first, width;
  };
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const Case& c : {Case{11, 3, 7, 1, 6}, Case{16, 8, 24, 16, 8}, Case{5, 0, 5, 0, 5},
                          Case{6, 2, 10, 4, 2}, Case{4, 4, 3, 0, 0}}) {
      const Values before = random_values(kRows * c.to_width, 1, dtype);
      const Values x = random_values(kRows * c.from_width, 2, dtype);
      const Held to(stream, {kRows, c.to_width}, dtype, before);
      const Held from(stream, {kRows, c.from_width}, dtype, x);
      copy_columns(stream, {to, c.to_first}, {from, c.from_first}, c.width);
      Values expected = before;
      for (std::int64_t row = 0; row < kRows; ++row) {
        for (std::int64_t i = 0; i < c.width; ++i) {
          expected[row * c.to_width + c.to_first + i] = x[row * c.from_width + c.from_first + i];
        }
      }
      EXPECT_EQ(to.values(), expected);
    }
  });
}

TEST(TableCopy, rows_are_taken_in_any_order_and_several_times) {
  const Values places{4, 0, 8, 4, 7};
  on_every_platform([&](Stream& stream) {
    const Held from_where(stream, {std::ssize(places)}, DType::kI32, places);
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBf16, DType::kF16, DType::kI32}) {
      for (const std::int64_t width : {1, 6, 8}) {
        Values x(static_cast<std::size_t>(kRows * width));
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
        const Held from(stream, {kRows, width}, dtype, x);
        const Held to(stream, {std::ssize(places), width}, dtype);
        take_rows(stream, to, from, from_where);
        Values expected;
        for (const double place : places) {
          const auto first = x.begin() + static_cast<std::int64_t>(place) * width;
          expected.insert(expected.end(), first, first + width);
        }
        EXPECT_EQ(to.values(), expected) << name_of(dtype) << " " << width;
      }
    }
  });
}

TEST(TableCopy, columns_that_a_table_lacks_are_refused) {
  Stream stream;
  const Held to(stream, {3, 4}, DType::kF32), from(stream, {3, 5}, DType::kF32);
  EXPECT_NO_THROW(copy_columns(stream, {to, 1}, {from, 2}, 3));
  EXPECT_THROW(copy_columns(stream, {to, 2}, {from, 2}, 3), Error);
  EXPECT_THROW(copy_columns(stream, {to, 0}, {from, 3}, 3), Error);
  const Held fewer(stream, {2, 5}, DType::kF32);
  EXPECT_THROW(copy_columns(stream, {to, 0}, {fewer, 0}, 3), Error);
}

}  // namespace
}  // namespace trireme::ops
