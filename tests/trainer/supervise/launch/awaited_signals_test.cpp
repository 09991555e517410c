#include "trainer/supervise/launch/awaited_signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace trireme {
namespace {

TEST(awaited_signals, are_taken_one_by_one) {
  const AwaitedSignals signals;
  EXPECT_EQ(signals.wait(0.001), 0);
  ::kill(::getpid(), SIGTERM);
  ::kill(::getpid(), SIGUSR1);
  const int first = signals.wait(1), second = signals.wait(1);
  EXPECT_EQ(first + second, SIGTERM + SIGUSR1);
  EXPECT_EQ(signals.wait(0), 0);
}

}  // namespace
}  // namespace trireme
