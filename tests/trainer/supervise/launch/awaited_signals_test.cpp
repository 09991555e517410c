#include "trainer/supervise/launch/awaited_signals.h"

#include <gtest/gtest.h>

#include <csignal>

namespace trireme {
namespace {

TEST(awaited_signals, are_taken_one_by_one) {
  const AwaitedSignals signals;
  EXPECT_EQ(signals.wait(0.001), 0);
  // To this thread, as others of the process may not await them.
  std::raise(SIGTERM);
  std::raise(SIGUSR1);
  const int first = signals.wait(1), second = signals.wait(1);
  EXPECT_EQ(first + second, SIGTERM + SIGUSR1);
  EXPECT_EQ(signals.wait(0), 0);
}

}  // namespace
}  // namespace trireme
