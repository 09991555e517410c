#include "trainer/loop/spike_window.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trireme {
namespace {

TEST(SpikeWindow, judges_by_the_newest_values_once_it_is_full) {
  SpikeWindow window(4);
  for (const double value : {100.0, 2.0, 4.0}) window.add(value);
  EXPECT_FALSE(window.zscore(1e9));
  EXPECT_EQ(window.limit(3), std::numeric_limits<double>::infinity());
  for (const double value : {4.0, 6.0}) window.add(value);
  EXPECT_EQ(window.values(), (std::vector<double>{2, 4, 4, 6}));
  const double deviation = std::sqrt(8.0 / 3);
  EXPECT_DOUBLE_EQ(window.limit(3), 4 + 3 * deviation);
  EXPECT_DOUBLE_EQ(window.zscore(10).value(), 6 / deviation);
  EXPECT_DOUBLE_EQ(window.zscore(-2).value(), -6 / deviation);
}

TEST(SpikeWindow, takes_a_flat_curve_to_deviate_by_a_hundredth) {
  SpikeWindow window(3);
  for (int i = 0; i < 3; ++i) window.add(2);
  EXPECT_DOUBLE_EQ(window.limit(5), 2.1);
  EXPECT_DOUBLE_EQ(window.zscore(2.04).value(), 2);
}

}  // namespace
}  // namespace trireme
