#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "parallel/data/compression/largest.h"
#include "parallel/data/compression/low_rank.h"
#include "tests/parallel/data/compression_ranks.h"

namespace trireme::test {
namespace {

TEST(Largest, are_those_a_sort_would_put_first) {
  std::vector<std::int32_t> counts(kLargestCounts);
  for (const int values : {3, 1000, 1 << 30}) {  // how many different ones there are
    std::vector<float> x(3001);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto word = philox(1, i)[0] % static_cast<std::uint32_t>(values);
      x[i] = (i % 2 == 0 ? -1e-9f : 1e-9f) * static_cast<float>(word);
    }
    for (const std::size_t wanted : {std::size_t{1}, std::size_t{77}, x.size()}) {
      std::vector<std::size_t> order(x.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return std::fabs(x[a]) > std::fabs(x[b]);
      });
      std::vector<std::size_t> expected(order.begin(), order.begin() + wanted), found;
      std::sort(expected.begin(), expected.end());
      Largest largest = find_largest(
          x.data(), static_cast<std::int64_t>(x.size()), static_cast<std::int64_t>(wanted),
          std::span<std::int32_t, kLargestCounts>(counts.data(), kLargestCounts));
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::uint32_t key = magnitude_key(x[i]);
        if (key > largest.key || (key == largest.key && largest.ties-- > 0)) found.push_back(i);
      }
      EXPECT_EQ(found, expected) << wanted << " of " << values << " values";
    }
  }
}

TEST(LowRank, columns_become_orthonormal_and_the_dependent_zero) {
  constexpr int kRank = 4;
  std::vector<double> p(50 * kRank);
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = 1e-8 * noise(3, static_cast<int>(i), 0);
  for (std::size_t i = 0; i < p.size(); i += kRank) p[i + 2] = 2 * p[i] - p[i + 1];
  orthonormalize(p.data(), 50, kRank);
  for (int a = 0; a < kRank; ++a) {
    for (int b = 0; b < kRank; ++b) {
      double product = 0;
      for (std::size_t i = 0; i < p.size(); i += kRank) product += p[i + a] * p[i + b];
      EXPECT_NEAR(product, a == b && a != 2 ? 1 : 0, 1e-14) << a << " " << b;
    }
  }
}

TEST(LowRank, only_lost_directions_are_drawn_anew) {
  constexpr std::int64_t kLong = 40;
  std::vector<float> q(3 * kLong, 2.0f);
  std::fill_n(q.begin(), kLong, 0.0f);
  q[kLong + 3] = std::numeric_limits<float>::quiet_NaN();
  refresh_directions(q.data(), 3, kLong, 5);
  for (int row = 0; row < 3; ++row) {
    double squares = 0;
    for (std::int64_t j = 0; j < kLong; ++j) squares += q[row * kLong + j] * q[row * kLong + j];
    EXPECT_NEAR(squares, 1, 1e-5) << row;
  }
  EXPECT_NE(q[0], q[kLong]);
  EXPECT_NE(q[0], q[1]);
  EXPECT_EQ(q[2 * kLong], q[3 * kLong - 1]);
}

TEST(GradientRange, holds_the_matrices_rows_that_it_has_whole) {
  ParamStore store;
  Arena weights(1 << 16), masters(0), gradients(1 << 16);
  store.declare({.name = "gain", .shape = {5}});
  store.declare({.name = "first", .shape = {6, 10}});
  store.declare({.name = "second", .shape = {4, 8}});
  store.allocate({weights, masters, &gradients}, DType::kF32);
  const std::int64_t first = store.weights()[1].parts.front().offset;
  const std::int64_t second = store.weights()[2].parts.front().offset;
  // From within the first matrix's row 1 to within the second's row 2.
  const std::int64_t begin = first + 13, end = second + 2 * 8 + 7;
  const GradientRange range = gradient_range(store, begin, store.grads().slice(begin, end - begin));
  ASSERT_EQ(range.matrices.size(), 2U);
  EXPECT_EQ(range.matrices[0].first, first + 20 - begin);
  EXPECT_EQ(range.matrices[0].rows, 4);
  EXPECT_EQ(range.matrices[1].first, second - begin);
  EXPECT_EQ(range.matrices[1].rows, 2);
  EXPECT_EQ(range.matrices[1].width, 8);
  ASSERT_EQ(range.padding.size(), 1U);
  EXPECT_EQ(range.padding[0].first, first + 60 - begin);
  EXPECT_EQ(range.padding[0].count, second - first - 60);
  const Tensor within_a_row = store.grads().slice(begin, 6);
  EXPECT_TRUE(gradient_range(store, begin, within_a_row).matrices.empty());
}

}  // namespace
}  // namespace trireme::test
