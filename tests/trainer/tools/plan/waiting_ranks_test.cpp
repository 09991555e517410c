#include "trainer/tools/plan/calibrate/waiting_ranks.h"

#include <gtest/gtest.h>

#include "parallel/comm/self_communicator.h"

namespace trireme {
namespace {

// A rank that has a core; how much it loses is the machine's.
TEST(WaitingRanks, LowerTheEfficiencyOfAllMatmulsInBfloat16) {
  SelfCommunicator alone;
  const MachinePace clock{Device{}};
  WaitingRanks waiting(alone, {}, clock);
  waiting.sample();
  DeviceProfile profile = find_profile("CPU");
  ProductRate& half = profile.rates[static_cast<std::size_t>(NumberFormat::kHalf)];
  half.product = 1;
  half.grouped = half.weight_gradient = half.grouped_weight_gradient = {.product = 2};
  const double product = profile.rate(NumberFormat::kFloat32).product;
  waiting.fill(profile);
  EXPECT_GT(half.product, 0);
  EXPECT_LE(half.product, 1);
  for (const auto& own : {half.grouped, half.weight_gradient, half.grouped_weight_gradient}) {
    EXPECT_EQ(own.value().product, 2 * half.product);
  }
  EXPECT_EQ(profile.rate(NumberFormat::kFloat32).product, product);
  EXPECT_GE(profile.network.lockstep, 0);
  EXPECT_EQ(profile.idle_time_used, 1);
}

}  // namespace
}  // namespace trireme
