#include "model/ops/grouped_bias.h"

#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

// Rows of groups, some of them empty, then two rows of no group; pairs in another order than rows.
struct BiasedRows {
  BiasedRows(Stream& stream, const Values& ends)
      : starts(stream, {std::ssize(ends)}, DType::kI32, ends),
        groups(std::ssize(ends) - 1),
        used(static_cast<std::int64_t>(ends.back())),
        rows(used + 2),
        pair_of(reversed(rows)),
        pairs(stream, {rows}, DType::kI32, pair_of) {
    for (std::int64_t row = 0; row < used; ++row) {
      const auto after = std::upper_bound(ends.begin(), ends.end(), static_cast<double>(row));
      group_of.push_back(after - ends.begin() - 1);
    }
  }
  static Values reversed(std::int64_t rows) {
    Values all;
    for (std::int64_t row = 0; row < rows; ++row)
      all.push_back(static_cast<double>(rows - 1 - row));
    return all;
  }
  std::int64_t pair(std::int64_t row) const { return rows - 1 - row; }

  Held starts;
  std::int64_t groups, used, rows;
  Values pair_of;
  Held pairs;
  std::vector<std::int64_t> group_of = {};
};

const Values kEnds[] = {{0, 3, 3, 50, 51, 84}, {0, 0, 1}, {0, 40}, {0, 0, 0}};
constexpr std::int64_t kBiasWidths[] = {1, 7, 64, 260, 600};

// Calls body(stream, dtype, rows, width) for every platform, dtype, width and choice of groups.
template <class Body>
void for_every_grouping(const Body& body) {
  on_every_platform_and_dtype([&](Stream& stream, DType dtype) {
    for (const Values& ends : kEnds) {
      const BiasedRows rows(stream, ends);
      for (const std::int64_t width : kBiasWidths) {
        SCOPED_TRACE(say(rows.groups, " groups, ", rows.rows, " rows of ", width));
        body(stream, dtype, rows, width);
      }
    }
  });
}

Values nan_beyond(Values values, const BiasedRows& rows, std::int64_t width) {
  std::fill(values.begin() + rows.used * width, values.end(), kNan);
  return values;
}

TEST(GroupedBias, is_added_to_the_rows_of_its_group_alone) {
  for_every_grouping([](Stream& stream, DType dtype, const BiasedRows& rows, std::int64_t width) {
    Values y = nan_beyond(random_values(rows.rows * width, 1, dtype), rows, width);
    const Values b = random_values(rows.groups * width, 2, dtype);
    const Held out(stream, {rows.rows, width}, dtype, y);
    grouped_bias(stream, out, Held(stream, {rows.groups, width}, dtype, b), rows.starts);
    for (std::int64_t i = 0; i < rows.used * width; ++i) {
      y[i] += b[rows.group_of[i / width] * width + i % width];
    }
    expect_values(out, y, 1);
  });
}

TEST(GroupedBias, without_groups_is_added_to_all_rows) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    Values y = random_values(9 * 70, 1, dtype);
    const Values b = random_values(70, 2, dtype);
    const Held out(stream, {9, 70}, dtype, y);
    grouped_bias(stream, out, Held(stream, {70}, dtype, b), {});
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += b[i % 70];
    expect_values(out, y, 1);
  });
}

TEST(GroupedBias, gradient_is_the_weighted_sum_of_the_rows_of_its_group) {
  for_every_grouping([](Stream& stream, DType dtype, const BiasedRows& rows, std::int64_t width) {
    const DType sums = accumulator_of(dtype);
    const Values dy = nan_beyond(random_values(rows.rows * width, 1, dtype), rows, width);
    const Values weights = random_values(rows.rows, 2, sums);
    const Values before = random_values(rows.groups * width, 3, sums);
    const Held gradient(stream, {rows.rows, width}, dtype, dy);
    const Held w(stream, {rows.rows}, sums, weights);
    for (const bool weighted : {false, true}) {
      for (const Accumulate accumulate : {Accumulate::kReplace, Accumulate::kAdd}) {
        const bool adds = accumulate == Accumulate::kAdd;
        Values expected = adds ? before : Values(before.size(), 0.0);
        for (std::int64_t i = 0; i < rows.used * width; ++i) {
          const double weight = weighted ? weights[rows.pair(i / width)] : 1;
          expected[rows.group_of[i / width] * width + i % width] += weight * dy[i];
        }
        const Held dbias(stream, {rows.groups, width}, sums, adds ? before : Values{});
        const RowWeights how =
            weighted ? RowWeights{.weights = w, .pairs = rows.pairs} : RowWeights{};
        grouped_bias_backward(stream, dbias, gradient, how, rows.starts, accumulate);
        expect_values(dbias, expected, 12, 12);
      }
    }
  });
}

TEST(GroupedBias, dots_are_added_at_the_pairs_of_rows) {
  for_every_grouping([](Stream& stream, DType dtype, const BiasedRows& rows, std::int64_t width) {
    const DType sums = accumulator_of(dtype);
    const Values dy = nan_beyond(random_values(rows.rows * width, 1, dtype), rows, width);
    const Values b = random_values(rows.groups * width, 2, dtype);
    Values expected = random_values(rows.rows, 3, sums);
    const Held dots(stream, {rows.rows}, sums, expected);
    grouped_bias_dots(stream, dots, Held(stream, {rows.rows, width}, dtype, dy),
                      Held(stream, {rows.groups, width}, dtype, b), rows.pairs, rows.starts);
    for (std::int64_t i = 0; i < rows.used * width; ++i) {
      expected[rows.pair(i / width)] += dy[i] * b[rows.group_of[i / width] * width + i % width];
    }
    const double size = std::sqrt(static_cast<double>(width));
    expect_values(dots, expected, 10 + 2 * size, size);
  });
}

TEST(GroupedBias, bits_do_not_depend_on_threads) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const std::int64_t width = 130;
    const DType sums = accumulator_of(dtype);
    const BiasedRows rows(stream, {0, 70, 70, 71, 120});
    const Held dy(stream, {rows.rows, width}, dtype, random_values(rows.rows * width, 1, dtype));
    const Held bias(stream, {rows.groups, width}, dtype,
                    random_values(rows.groups * width, 2, dtype));
    const Held w(stream, {rows.rows}, sums, random_values(rows.rows, 3, sums));
    expect_thread_independent([&] {
      const Held y(stream, {rows.rows, width}, dtype, random_values(rows.rows * width, 4, dtype));
      const Held dbias(stream, {rows.groups, width}, sums);
      const Held dots(stream, {rows.rows}, sums, Values(rows.rows, 0.5));
      grouped_bias(stream, y, bias, rows.starts);
      grouped_bias_backward(stream, dbias, dy, {.weights = w, .pairs = rows.pairs}, rows.starts,
                            Accumulate::kReplace);
      grouped_bias_dots(stream, dots, dy, bias, rows.pairs, rows.starts);
      return joined({&y, &dbias, &dots});
    });
  });
}

TEST(GroupedBias, of_other_sizes_is_an_error) {
  on_every_platform([](Stream& stream) {
    const BiasedRows rows(stream, {0, 3, 4});
    const Held y(stream, {6, 8}, DType::kF32), bias(stream, {3, 8}, DType::kF32);
    const Held dots(stream, {6}, DType::kF32);
    EXPECT_THROW(grouped_bias(stream, y, bias, rows.starts), Error);
    EXPECT_THROW(grouped_bias(stream, y, bias, bias), Error);
    EXPECT_THROW(grouped_bias_backward(stream, bias, y, {}, rows.starts, Accumulate::kAdd), Error);
    EXPECT_THROW(grouped_bias_dots(stream, dots, y, bias, rows.pairs, rows.starts), Error);
  });
}

}  // namespace
}  // namespace trireme::ops
