#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <thread>

#include "model/device/stream.h"
#include "tests/parallel/mpi_world.h"

namespace trireme::tests {
namespace {

double seconds_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Under mpi_yield_when_idle, which mpi_environment sets. 0.02 s is for a wait that a busy machine
// has made short; one that only yields computes for all of the 0.5 s that it gets.
TEST(Waits, of_a_rank_for_another_leave_their_core_to_others) {
  const auto group = all_ranks();
  Stream stream;
  group->barrier(stream);
  if (world().rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const double wall = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  group->barrier(stream);
  const double waited = seconds_of(CLOCK_MONOTONIC) - wall;
  const double computed = seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
  if (world().rank() == 0) return;
  EXPECT_LT(computed, waited / 8 + 0.02);
}

}  // namespace
}  // namespace trireme::tests
