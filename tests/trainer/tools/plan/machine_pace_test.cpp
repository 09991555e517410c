#include "trainer/tools/plan/calibrate/machine_pace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "model/device/imagined.h"

namespace trireme {
namespace {

TEST(MachinePace, IsTheMeanWithShortPausesButWithoutLongOnes) {
  MachinePace pace{Device{}};
  for (const double rate : {10.0, 12.0, 0.5, 2.0, 8.0, 14.0}) pace.add(rate);
  EXPECT_EQ(pace.first(), 10);
  EXPECT_DOUBLE_EQ(pace.mean_over_first(), 0.92);
}

TEST(MachinePace, AClockOfSharedCoresStandsStillWhileTheyAreAnothers) {
  const auto advances = [](double sharing) {
    const MachinePace pace(Device{}, DType::kF32, sharing);
    const double begin = pace.now();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return pace.now() - begin;
  };
  EXPECT_GE(advances(1), 0.05);
  EXPECT_LT(advances(2), 0.05);
}

TEST(MachinePace, CountsMatmulsOfTheCpuAlone) {
  EXPECT_GT(MachinePace{Device{}}.sample(1e-3), 1);
  EXPECT_GT((MachinePace{Device{}, DType::kBf16}.sample(1e-3)), 1);
  EXPECT_EQ(MachinePace{imagined_gpu()}.sample(1e-3), 1);
}

}  // namespace
}  // namespace trireme
