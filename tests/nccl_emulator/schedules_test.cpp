// Whatever the order in which hosts and devices move, no step's messages hang.
#include <gtest/gtest.h>

#include "parallel/comm/gpu_environment.h"
#include "tests/nccl_emulator/step_messages.h"

namespace trireme {
namespace {

using test::Axes;
using test::EmulatedJob;
using test::EmulatedRank;

TEST(Schedules, of_any_order_come_to_their_end) {
  constexpr Axes kAxes[] = {{2, 1, 1}, {1, 1, 2}, {2, 1, 2}, {1, 2, 2}, {4, 1, 1},
                            {2, 2, 1}, {2, 2, 2}, {4, 1, 2}, {1, 4, 2}, {8, 1, 1}};
  const std::uint64_t first = test::first_seed(), count = test::schedules(300);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Axes& axes = kAxes[seed % std::size(kAxes)];
    EmulatedJob options{.job = {.ranks = axes.ranks(), .seed = seed}};
    for (const auto& [name, value] : comm::gpu_variables()) options.job.variables[name] = value;
    // Before version 2.26 NCCL orders no launches.
    if (seed % 7 == 0) options.job.variables.erase("NCCL_LAUNCH_ORDER_IMPLICIT");
    options.nccl.ordered_sums = seed % 3 == 0;
    SCOPED_TRACE(say("seed ", seed, ": pipeline ", axes.pipeline, ", data ", axes.data, ", tensor ",
                     axes.tensor, options.nccl.ordered_sums ? ", ordered sums" : ""));
    ASSERT_NO_THROW(
        test::run_emulated(options, [&](EmulatedRank& own) { test::communicate(own, axes, 1); }));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace trireme
