#include "trainer/loop/step_guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace trireme {
namespace {

using Action = StepGuard::Action;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(SpikeWindow, judges_by_the_newest_values_once_it_is_full) {
  SpikeWindow window(4);
  for (const double value : {100.0, 2.0, 4.0}) window.add(value);
  EXPECT_FALSE(window.zscore(1e9));
  EXPECT_EQ(window.limit(3), std::numeric_limits<double>::infinity());
  for (const double value : {4.0, 6.0}) window.add(value);
  EXPECT_EQ(window.values(), (std::vector<double>{2, 4, 4, 6}));
  const double deviation = std::sqrt(8.0 / 3);
  EXPECT_DOUBLE_EQ(window.limit(3), 4 + 3 * deviation);
  EXPECT_DOUBLE_EQ(window.zscore(10).value(), 6 / deviation);
  EXPECT_DOUBLE_EQ(window.zscore(-2).value(), -6 / deviation);
}

TEST(SpikeWindow, takes_a_flat_curve_to_deviate_by_a_hundredth) {
  SpikeWindow window(3);
  for (int i = 0; i < 3; ++i) window.add(2);
  EXPECT_DOUBLE_EQ(window.limit(5), 2.1);
  EXPECT_DOUBLE_EQ(window.zscore(2.04).value(), 2);
}

StepGuard guard_of(const char* on_nonfinite, const char* on_spike, std::int64_t max_skips = 2) {
  TrainingConfig config;
  config.on_nonfinite = on_nonfinite;
  config.on_spike = on_spike;
  config.spike_zscore = 3;
  config.spike_window = 4;
  config.max_skips = max_skips;
  return StepGuard(config);
}

void accept_steps(StepGuard& guard, std::int64_t steps) {
  for (std::int64_t step = 1; step <= steps; ++step) {
    guard.accept(step, 5.0 - 0.1 * static_cast<double>(step % 2), 1.0);
  }
}

TEST(StepGuard, applies_nothing_when_the_load_of_an_expert_spikes) {
  StepGuard guard = guard_of("stop", "skip");
  for (std::int64_t step = 1; step <= 4; ++step) guard.accept(step, 5, 1, 1.5);
  EXPECT_DOUBLE_EQ(guard.norm_limit(5, 1.5), 1.03);
  EXPECT_LT(guard.norm_limit(5, 1.6), 0);
  EXPECT_DOUBLE_EQ(guard.norm_limit(5), 1.03) << "without experts";
  const StepGuard::Decision decision = guard.decide(5, 5, 1, 1.8);
  EXPECT_EQ(decision.action, Action::kSkip);
  EXPECT_TRUE(decision.spike);
  EXPECT_DOUBLE_EQ(decision.load_zscore.value(), 0.3 / 0.015);
  nlohmann::json scalars;
  guard.write(scalars);
  StepGuard resumed = guard_of("stop", "skip");
  resumed.read(scalars, /*counts=*/true);
  EXPECT_LT(resumed.norm_limit(5, 1.6), 0);
}

TEST(StepGuard, limits_the_norm_by_that_of_the_good_steps) {
  StepGuard guard = guard_of("stop", "skip");
  EXPECT_EQ(guard.norm_limit(1e6), kInfinity);
  accept_steps(guard, 4);
  EXPECT_DOUBLE_EQ(guard.norm_limit(5.0), 1.03);
  EXPECT_LT(guard.norm_limit(6.0), 0);
  EXPECT_LT(guard.norm_limit(kNan), 0);
}

TEST(StepGuard, without_a_policy_for_spikes_forbids_only_what_is_not_finite) {
  StepGuard guard = guard_of("skip", "none");
  accept_steps(guard, 20);
  EXPECT_EQ(guard.norm_limit(1e6), kInfinity);
  EXPECT_LT(guard.norm_limit(kInfinity), 0);
}

TEST(StepGuard, answers_by_the_policy_of_what_it_finds) {
  StepGuard guard = guard_of("rollback", "skip");
  accept_steps(guard, 4);
  const auto spike = guard.decide(5, 5.0, 9);
  EXPECT_TRUE(spike.spike);
  EXPECT_EQ(spike.action, Action::kSkip);
  EXPECT_DOUBLE_EQ(spike.norm_zscore.value(), 800);
  EXPECT_EQ(guard.decide(5, kNan, 1).action, Action::kRollBack);
  EXPECT_EQ(guard.skips(), 1);
  EXPECT_EQ(guard.rollbacks(), 1);
  EXPECT_EQ(guard_of("stop", "none").decide(1, kNan, 1).action, Action::kStop);
}

TEST(StepGuard, stops_when_it_does_not_get_past_a_step) {
  StepGuard guard = guard_of("rollback", "none");
  EXPECT_EQ(guard.decide(8, kNan, 1).action, Action::kRollBack);
  accept_steps(guard, 6);  // once more up to where the checkpoint is
  EXPECT_EQ(guard.decide(7, kNan, 1).action, Action::kRollBack);
  const auto last = guard.decide(7, kNan, 1);
  EXPECT_EQ(last.action, Action::kStop);
  EXPECT_TRUE(last.exhausted);
  guard.accept(8, 5, 1);
  EXPECT_EQ(guard.decide(9, kNan, 1).action, Action::kRollBack);
}

TEST(StepGuard, decides_the_same_after_a_restart) {
  StepGuard guard = guard_of("skip", "skip");
  for (int i = 0; i < 9; ++i) guard.accept(i + 1, 5.0 / (i + 3), 1.0 / (i + 7));
  guard.decide(10, 5.0, 80);
  guard.decide(10, 5.0, 80);
  nlohmann::json scalars = nlohmann::json::object();
  guard.write(scalars);
  scalars = nlohmann::json::parse(scalars.dump());
  StepGuard again = guard_of("skip", "skip");
  again.read(scalars, true);
  EXPECT_EQ(again.norm_limit(0.1), guard.norm_limit(0.1));
  EXPECT_EQ(again.skips(), 2);
  EXPECT_EQ(again.decide(10, 5.0, 80).action, Action::kStop);

  StepGuard back = guard_of("skip", "skip");  // a rollback does not forget that it was one
  back.decide(12, kNan, 1);
  back.read(scalars, false);
  EXPECT_EQ(back.norm_limit(0.1), guard.norm_limit(0.1));
  EXPECT_EQ(back.skips(), 1);
}

}  // namespace
}  // namespace trireme
