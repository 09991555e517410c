#include "trainer/telemetry/core_wait.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(CoreWait, tells_once_when_threads_waited_for_more_than_a_quarter_of_a_stretch) {
  CoreWait wait(2, 5);
  EXPECT_FALSE(wait.look(100, 3.0));
  EXPECT_FALSE(wait.look(104, 9.0)) << "not a whole stretch yet";
  EXPECT_FALSE(wait.look(110, 8.0)) << "5 of 2 x 10 seconds";
  const auto share = wait.look(120, 16.0);
  ASSERT_TRUE(share);
  EXPECT_DOUBLE_EQ(*share, 0.4);
  EXPECT_FALSE(wait.look(130, 36.0)) << "a second time";
}

TEST(CoreWait, says_nothing_where_the_kernel_does_not_count) {
  CoreWait wait(2, 5);
  EXPECT_FALSE(wait.look(0, std::nullopt));
  EXPECT_FALSE(wait.look(100, std::nullopt));
}

}  // namespace
}  // namespace trireme
