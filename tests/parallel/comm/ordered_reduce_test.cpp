#include "parallel/comm/ordered_reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/parallel/comm/filled.h"

namespace trireme {
namespace {

template <class T>
std::vector<T> reduced(Reduce reduce, const std::vector<std::vector<T>>& contributions) {
  std::vector<const std::byte*> addresses;
  for (const std::vector<T>& one : contributions) {
    addresses.push_back(reinterpret_cast<const std::byte*>(one.data()));
  }
  std::vector<T> out(contributions.front().size());
  comm::reduce_in_order(reduce, DTypeOf<T>::kValue, addresses,
                        reinterpret_cast<std::byte*>(out.data()),
                        static_cast<std::int64_t>(out.size()));
  return out;
}

// In float32 1e8 + 1 is 1e8: each way to join these has its own sum.
TEST(OrderedReduce, joins_pairs_then_pairs_of_pairs) {
  EXPECT_EQ(reduced<float>(Reduce::kSum, {{1e8f}, {1.0f}, {-1e8f}}).front(), 0.0f);
  EXPECT_EQ(reduced<float>(Reduce::kSum, {{1e8f}, {-1e8f}, {1.0f}}).front(), 1.0f);
  EXPECT_EQ(reduced<float>(Reduce::kSum, {{1e8f}, {-1e8f}, {1.0f}, {2.0f}}).front(), 3.0f);
  EXPECT_EQ(reduced<float>(Reduce::kSum, {{1.0f}, {2.0f}, {1e8f}, {-1e8f}}).front(), 3.0f);
  EXPECT_EQ(reduced<float>(Reduce::kSum, {{1.0f}, {1e8f}, {2.0f}, {-1e8f}}).front(), 0.0f);
}

TEST(OrderedReduce, of_the_sums_of_aligned_runs_has_the_bits_of_one_sum) {
  for (const std::size_t ranks : {2u, 3u, 4u, 5u, 6u, 7u, 8u, 11u, 16u}) {
    std::vector<std::vector<float>> all;
    for (std::size_t r = 0; r < ranks; ++r) {
      all.push_back(tests::filled<float>(static_cast<int>(r), 1000));
    }
    const std::vector<float> expected = reduced(Reduce::kSum, all);
    for (const std::size_t run : {2u, 4u, 8u}) {
      std::vector<std::vector<float>> sums;
      for (std::size_t r = 0; r < ranks; r += run) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(r);
        const auto length = static_cast<std::ptrdiff_t>(std::min(run, ranks - r));
        sums.push_back(reduced(Reduce::kSum, std::vector(begin, begin + length)));
      }
      EXPECT_TRUE(tests::are_same(reduced(Reduce::kSum, sums), expected))
          << ranks << " ranks in runs of " << run;
    }
    std::vector<float> one_by_one = all.front();
    for (std::size_t r = 1; r < ranks; ++r) {
      one_by_one = reduced<float>(Reduce::kSum, {one_by_one, all[r]});
    }
    EXPECT_EQ(tests::are_same(one_by_one, expected), ranks < 4) << ranks << " ranks";
  }
}

TEST(OrderedReduce, sums_bfloat16_in_float32_and_rounds_once) {
  // 256 + 1 is 256 in bfloat16, so that rounding at every step would lose both ones.
  const std::vector<Bf16> sum =
      reduced<Bf16>(Reduce::kSum, {{Bf16(256.0f)}, {Bf16(1.0f)}, {Bf16(1.0f)}});
  EXPECT_EQ(static_cast<float>(sum.front()), 258.0f);
}

TEST(OrderedReduce, sums_float16_in_float32_and_rounds_once) {
  // 2048 + 1 is 2048 in float16; and no sum on the way is too large.
  const std::vector<F16> sum = reduced<F16>(
      Reduce::kSum,
      {{F16(2048.0f), F16(60000.0f)}, {F16(1.0f), F16(60000.0f)}, {F16(1.0f), F16(-60000.0f)}});
  EXPECT_EQ(static_cast<float>(sum[0]), 2050.0f);
  EXPECT_EQ(static_cast<float>(sum[1]), 60000.0f);
}

TEST(OrderedReduce, of_int32_wraps_around) {
  const std::int32_t most = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(reduced<std::int32_t>(Reduce::kSum, {{most}, {1}}).front(),
            std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(reduced<std::int32_t>(Reduce::kMax, {{-5}, {-7}}).front(), -5);
}

TEST(OrderedReduce, keeps_a_nan_wherever_it_comes_from) {
  const double nan = std::nan("");
  const std::vector<double> most =
      reduced<double>(Reduce::kMax, {{nan, 1, 1}, {1, nan, 2}, {1, 3, -1}});
  EXPECT_TRUE(std::isnan(most[0]));
  EXPECT_TRUE(std::isnan(most[1]));
  EXPECT_EQ(most[2], 2);
}

TEST(OrderedReduce, may_write_over_a_contribution_of_any_length) {
  for (const std::size_t count : {0u, 1u, 1023u, 1025u, 100'000u}) {
    std::vector<float> a(count, 1.0f), b(count), c(count, 3.0f);
    for (std::size_t i = 0; i < count; ++i) b[i] = static_cast<float>(i);
    comm::reduce_in_order(
        Reduce::kSum, DType::kF32,
        {reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data()),
         reinterpret_cast<std::byte*>(c.data())},
        reinterpret_cast<std::byte*>(b.data()), static_cast<std::int64_t>(count));
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(b[i], static_cast<float>(i) + 4.0f) << i;
  }
}

}  // namespace
}  // namespace trireme
