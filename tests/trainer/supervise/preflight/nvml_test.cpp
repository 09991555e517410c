#include "trainer/supervise/preflight/nvml.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace trireme::preflight {
namespace {

constexpr const char* kGpu = "00000000:1B:00.0";

GpuHealth health_of(const char* told) {
  ::setenv("TRIREME_TEST_GPU", told, 1);
  return gpu_health(kGpu);
}

TEST(Nvml, tells_what_it_knows_and_leaves_out_what_it_does_not) {
  const GpuHealth health = health_of("3 8 16 2");
  EXPECT_EQ(health.unknown_because, "");
  EXPECT_EQ(health.uncorrected_errors, 3);
  EXPECT_EQ(health.throttled, GpuHealth::kHardware);
  EXPECT_EQ(health.links_up, 16);
  EXPECT_EQ(health.links_down, 2);
  EXPECT_FALSE(health.temperature) << "not supported";
  EXPECT_FALSE(health.clock_mhz) << "the library has no such function";
}

TEST(Nvml, that_knows_no_such_gpu_says_so) {
  EXPECT_EQ(gpu_health("00000000:2C:00.0").unknown_because,
            "NVML does not find a GPU at 00000000:2C:00.0");
}

TEST(Nvml, finds_faults_of_the_machine_and_no_others) {
  EXPECT_EQ(fault_of(health_of("0 1 0 0")), "") << "idle";
  EXPECT_EQ(fault_of(health_of("0 4 0 0")), "") << "its power limit";
  EXPECT_EQ(fault_of(health_of("0 96 0 0")), "clocks throttled: temperature");
  EXPECT_EQ(fault_of(health_of("2 136 0 0")),
            "2 uncorrected ECC errors since the last reset, clocks throttled by the hardware, "
            "clocks throttled: power brake");
}

}  // namespace
}  // namespace trireme::preflight
