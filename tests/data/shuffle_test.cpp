#include "data/window_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <unordered_set>
#include <vector>

#include "model/base/philox.h"

namespace trireme::data {
namespace {

std::vector<std::uint64_t> order(std::uint64_t n, std::uint64_t key) {
  const Shuffle shuffle(n, key);
  std::vector<std::uint64_t> images(n);
  for (std::uint64_t i = 0; i < n; ++i) images[i] = shuffle(i);
  return images;
}

TEST(ShuffleTest, every_small_size_is_a_permutation) {
  for (std::uint64_t n = 1; n <= 300; ++n) {
    for (std::uint64_t key = 0; key < 5; ++key) {
      auto images = order(n, key);
      std::sort(images.begin(), images.end());
      for (std::uint64_t i = 0; i < n; ++i) ASSERT_EQ(images[i], i) << n << " " << key;
    }
  }
}

TEST(ShuffleTest, large_sizes_stay_inside_and_never_collide) {
  for (const std::uint64_t n : {std::uint64_t{1} << 20, (std::uint64_t{1} << 33) + 1,
                                (std::uint64_t{1} << 62) + 12345, std::uint64_t{1} << 63}) {
    const Shuffle shuffle(n, 42);
    std::unordered_set<std::uint64_t> seen, asked;
    for (std::uint64_t i = 0; i < 20000; ++i) {
      const auto random = philox(7, i);
      const std::uint64_t index = i < 5000 ? i : (random[0] | std::uint64_t{random[1]} << 32) % n;
      if (!asked.insert(index).second) continue;
      const std::uint64_t image = shuffle(index);
      EXPECT_LT(image, n);
      EXPECT_TRUE(seen.insert(image).second) << "two of " << n << " meet at " << image;
    }
  }
}

TEST(ShuffleTest, keys_give_different_orders) {
  EXPECT_NE(order(1000, 1), order(1000, 2));
  EXPECT_EQ(order(1000, 1), order(1000, 1));
}

TEST(ShuffleTest, places_and_images_are_independent) {
  // Chi-squared over 10 x 10 cells of (third of place, image): 81 degrees of freedom,
  // so above 150 has a chance near 1e-6.
  const std::uint64_t n = 100000;
  for (std::uint64_t key = 0; key < 5; ++key) {
    std::vector<double> cells(100, 0);
    const auto images = order(n, key);
    for (std::uint64_t i = 0; i < n; ++i) ++cells[i * 10 / n * 10 + images[i] * 10 / n];
    double chi = 0;
    for (const double cell : cells) chi += (cell - 1000) * (cell - 1000) / 1000;
    EXPECT_LT(chi, 150) << key;
  }
}

TEST(ShuffleTest, every_order_of_three_comes_up) {
  std::vector<std::vector<std::uint64_t>> seen;
  for (std::uint64_t key = 0; key < 200; ++key) seen.push_back(order(3, key));
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  EXPECT_EQ(seen.size(), 6u);
}

}  // namespace
}  // namespace trireme::data
