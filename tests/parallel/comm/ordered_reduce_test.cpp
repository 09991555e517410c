#include "parallel/comm/ordered_reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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

TEST(OrderedReduce, sums_from_the_first_contribution_to_the_last) {
  // In float32 1e8 + 1 is 1e8: each order of these has its own sum.
  EXPECT_EQ(reduced<float>(Reduce::kSum, {{1e8f}, {1.0f}, {-1e8f}}).front(), 0.0f);
  EXPECT_EQ(reduced<float>(Reduce::kSum, {{1e8f}, {-1e8f}, {1.0f}}).front(), 1.0f);
}

TEST(OrderedReduce, sums_bfloat16_in_float32_and_rounds_once) {
  // 256 + 1 is 256 in bfloat16, so that rounding at every step would lose both ones.
  const std::vector<Bf16> sum =
      reduced<Bf16>(Reduce::kSum, {{Bf16(256.0f)}, {Bf16(1.0f)}, {Bf16(1.0f)}});
  EXPECT_EQ(static_cast<float>(sum.front()), 258.0f);
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
