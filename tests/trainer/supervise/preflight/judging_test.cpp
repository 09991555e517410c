#include "trainer/supervise/preflight/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::preflight {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Outliers, are_those_below_a_share_of_the_median) {
  EXPECT_THAT(below_median({10, 10, 7.9, 10, 8.1}, 0.8), ElementsAre(2));
  EXPECT_THAT(below_median({10, 10, 10, 100}, 0.8), IsEmpty()) << "a fast one accuses nobody";
  EXPECT_THAT(below_median({10, 6}, 0.8), ElementsAre(1)) << "of two";
  EXPECT_THAT(below_median({10, 7}, 0.8), IsEmpty());
  EXPECT_THAT(below_median({5}, 0.8), IsEmpty());
  EXPECT_THAT(below_median({}, 0.8), IsEmpty());
}

TEST(Majority, names_the_others) {
  const Majority one = majority({"a", "b", "a"});
  EXPECT_EQ(one.value, "a");
  EXPECT_THAT(one.others, ElementsAre(1));
  EXPECT_THAT(majority({"b", "a", "a"}).others, ElementsAre(0)) << "the first may be wrong";
  EXPECT_THAT(majority({"b", "a"}).others, ElementsAre(1)) << "of two the first is right";
  EXPECT_THAT(majority({"c", "a", "b", "b", "a"}).others, ElementsAre(0, 2, 3));
  EXPECT_THAT(majority({"a", "a"}).others, IsEmpty());
}

}  // namespace
}  // namespace trireme::preflight
