#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "model/device/copy.h"
#include "model/device/devices.h"
#include "model/device/memory.h"
#include "parallel/comm/cuda/ordered_reduce.h"
#include "parallel/comm/ordered_reduce.h"
#include "tests/parallel/comm/filled.h"

namespace trireme {
namespace {

constexpr Device kCuda{Device::Kind::kCuda, 0};

template <class T>
class OrderedReduceOnCuda : public testing::Test {};
using DTypes = testing::Types<float, double, Bf16, F16, std::int32_t>;
TYPED_TEST_SUITE(OrderedReduceOnCuda, DTypes);

// The reduction of `all` in a device's memory, with the contribution of `own_rank` apart and
// overwritten; all.size(): none is apart.
template <class T>
std::vector<T> reduced_on_device(Reduce reduce, const std::vector<std::vector<T>>& all,
                                 int own_rank) {
  Stream stream(kCuda);
  const std::size_t count = all.front().size(), bytes = count * sizeof(T);
  const Memory others(all.size() * bytes + 1, kCuda), own(bytes + 1, kCuda);
  std::byte* next = others.data();
  for (std::size_t r = 0; r < all.size(); ++r) {
    const bool is_own = static_cast<int>(r) == own_rank;
    copy_bytes(stream, is_own ? own.data() : next,
               reinterpret_cast<const std::byte*>(all[r].data()), bytes);
    if (!is_own) next += bytes;
  }
  comm::cuda::reduce_in_order(stream, reduce, DTypeOf<T>::kValue,
                              {.others = others.data(),
                               .own = own.data(),
                               .own_rank = own_rank,
                               .ranks = static_cast<int>(all.size())},
                              own.data(), static_cast<std::int64_t>(count));
  std::vector<T> out(count);
  copy_bytes(stream, reinterpret_cast<std::byte*>(out.data()), own.data(), bytes);
  stream.synchronize();
  return out;
}

template <class T>
std::vector<T> on_the_host(Reduce reduce, const std::vector<std::vector<T>>& all) {
  std::vector<const std::byte*> addresses;
  for (const auto& one : all) addresses.push_back(reinterpret_cast<const std::byte*>(one.data()));
  std::vector<T> out(all.front().size());
  comm::reduce_in_order(reduce, DTypeOf<T>::kValue, addresses,
                        reinterpret_cast<std::byte*>(out.data()),
                        static_cast<std::int64_t>(out.size()));
  return out;
}

TYPED_TEST(OrderedReduceOnCuda, has_the_bits_of_the_host) {
  if (cuda_devices().count == 0) GTEST_SKIP() << cuda_devices().reason;
  for (const std::int64_t count : {1, 7, 256, 1001}) {
    for (const int ranks : {2, 3, 5, 7, 8}) {
      std::vector<std::vector<TypeParam>> all;
      for (int r = 0; r < ranks; ++r) all.push_back(tests::filled<TypeParam>(r, count));
      for (const Reduce reduce : {Reduce::kSum, Reduce::kMax}) {
        const std::vector<TypeParam> expected = on_the_host(reduce, all);
        for (int own_rank = 0; own_rank <= ranks; ++own_rank) {
          EXPECT_TRUE(tests::are_same(reduced_on_device(reduce, all, own_rank), expected))
              << count << " elements of " << ranks << " ranks, " << own_rank << " apart";
        }
      }
    }
  }
}

TEST(OrderedReduceOfNan, stays_one_on_cuda) {
  if (cuda_devices().count == 0) GTEST_SKIP() << cuda_devices().reason;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> all{{nan, 1, 1}, {1, nan, 2}, {1, 3, -1}};
  const std::vector<float> most = reduced_on_device(Reduce::kMax, all, 1);
  EXPECT_TRUE(std::isnan(most[0]) && std::isnan(most[1]));
  EXPECT_EQ(most[2], 2.0f);
  const std::vector<Bf16> sum =
      reduced_on_device<Bf16>(Reduce::kSum, {{Bf16(nan)}, {Bf16(1.0f)}, {Bf16(1.0f)}}, 0);
  EXPECT_TRUE(std::isnan(static_cast<float>(sum.front())));
  const std::vector<F16> half =
      reduced_on_device<F16>(Reduce::kSum, {{F16(nan)}, {F16(1.0f)}, {F16(1.0f)}}, 0);
  EXPECT_TRUE(std::isnan(static_cast<float>(half.front())));
}

}  // namespace
}  // namespace trireme
