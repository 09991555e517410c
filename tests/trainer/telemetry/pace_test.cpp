#include "trainer/telemetry/step_line.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

// Adds steps that take so long, one after the other, after pauses.
class Steps {
 public:
  explicit Steps(Pace& pace) : pace_(pace) {}
  void add(double seconds, double pause = 0) {
    StepMetrics metrics;
    metrics.step = ++step_;
    metrics.step_seconds = seconds;
    metrics.tokens_per_second = 100 / seconds;
    now_ += seconds + pause;
    pace_.add(metrics, now_);
  }

 private:
  Pace& pace_;
  std::int64_t step_ = 0;
  double now_ = 0;
};

TEST(Pace, the_time_left_is_not_told_before_five_steps_after_the_first) {
  Pace pace;
  Steps steps(pace);
  for (int i = 0; i < 5; ++i) {
    steps.add(i == 0 ? 40 : 2);
    EXPECT_FALSE(pace.seconds_left(100));
  }
  steps.add(2);
  EXPECT_EQ(pace.seconds_left(100), 200);
  EXPECT_FALSE(pace.seconds_left(0)) << "there is nothing left";
}

// A run of 500 steps whose first takes nine seconds and the next two a second, all others a
// quarter.
TEST(Pace, the_time_left_settles_from_the_first_on_although_a_run_warms_up) {
  Pace pace;
  Steps steps(pace);
  int told = 0;
  for (int step = 1; step <= 500; ++step) {
    steps.add(step == 1 ? 9 : step <= 3 ? 1 : 0.25 * (step % 2 == 0 ? 1.1 : 0.9));
    const auto left = pace.seconds_left(500 - step);
    if (!left) continue;
    ++told;
    const double true_left = 0.25 * (500 - step);
    EXPECT_NEAR(*left, true_left, 0.12 * true_left) << "step " << step;
  }
  EXPECT_EQ(told, 494);
}

TEST(Pace, one_slow_step_does_not_move_it) {
  Pace pace;
  Steps steps(pace);
  for (int i = 0; i < 10; ++i) steps.add(1);
  steps.add(300);
  EXPECT_EQ(pace.seconds_left(100), 100);
}

TEST(Pace, what_comes_between_steps_counts_by_its_mean) {
  Pace pace;
  Steps steps(pace);
  for (int step = 1; step <= 301; ++step) steps.add(1, step > 1 && step % 10 == 1 ? 5 : 0);
  EXPECT_NEAR(pace.seconds_left(100).value_or(0), 150, 1e-9);
}

TEST(Pace, speed_is_that_of_the_recent_steps_together) {
  Pace pace;
  Steps steps(pace);
  for (int i = 0; i < 50; ++i) steps.add(1);
  EXPECT_DOUBLE_EQ(pace.tokens_per_second(), 100);
  for (int i = 0; i < 20; ++i) steps.add(i % 2 == 0 ? 1 : 3);
  EXPECT_DOUBLE_EQ(pace.tokens_per_second(), 50);
}

}  // namespace
}  // namespace trireme
