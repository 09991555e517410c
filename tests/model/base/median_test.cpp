#include "model/base/median.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Median, is_the_middle_or_the_mean_of_two) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 9, 2}), 3);
}

}  // namespace
}  // namespace trireme
