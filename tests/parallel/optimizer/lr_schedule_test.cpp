#include "parallel/optimizer/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

LrScheduleOptions named(const std::string& name) {
  LrScheduleOptions how;
  how.name = name;
  how.warmup_steps = 10;
  how.min_lr_factor = 0.1;
  return how;
}

TEST(LearningRate, rises_in_equal_steps_to_the_peak) {
  for (const LrSchedule& schedule : lr_schedules()) {
    const char* const name = schedule.name;
    for (std::int64_t step = 1; step <= 10; ++step) {
      EXPECT_DOUBLE_EQ(learning_rate(named(name), 2, step, 100), 0.2 * static_cast<double>(step))
          << name;
    }
  }
}

TEST(LearningRate, ends_at_the_minimum_if_it_depends_on_the_length) {
  for (const LrSchedule& schedule : lr_schedules()) {
    if (!schedule.depends_on_length) continue;
    LrScheduleOptions how = named(schedule.name);
    for (const LrDecay& decay : lr_decays()) {
      how.decay_type = decay.name;
      EXPECT_NEAR(learning_rate(how, 2, 100, 100), 0.2, 1e-15) << how.name << " " << decay.name;
      EXPECT_NEAR(learning_rate(how, 2, 120, 100), 0.2, 1e-15) << how.name << " " << decay.name;
    }
  }
  EXPECT_EQ(learning_rate(named("constant"), 2, 100, 100), 2);
}

TEST(LearningRate, is_halfway_down_in_the_middle) {
  EXPECT_NEAR(learning_rate(named("cosine"), 2, 55, 100), 1.1, 1e-15);
  EXPECT_NEAR(learning_rate(named("linear"), 2, 55, 100), 1.1, 1e-15);
}

TEST(LearningRate, wsd_is_flat_until_its_decay) {
  LrScheduleOptions how = named("wsd");
  how.decay_ratio = 0.2;
  EXPECT_EQ(learning_rate(how, 2, 80, 100), 2);
  EXPECT_NEAR(learning_rate(how, 2, 90, 100), 1.1, 1e-15);
  how.decay_type = "sqrt";
  EXPECT_NEAR(learning_rate(how, 2, 90, 100), 2 * (0.1 + 0.9 * (1 - std::sqrt(0.5))), 1e-15);
}

// Megatron-LM's OptimizerParamScheduler.get_lr: min_lr + coeff * (max_lr - min_lr).
TEST(LearningRate, wsd_decays_exponentially_as_megatron_lm) {
  LrScheduleOptions how = named("wsd");
  how.decay_ratio = 0.2;
  how.decay_type = "exponential";
  for (const double step : {81.0, 85.0, 90.0, 99.0}) {
    const double coefficient = 2 * std::pow(0.5, (step - 80) / 20) - 1;
    EXPECT_NEAR(learning_rate(how, 2, static_cast<std::int64_t>(step), 100),
                0.2 + coefficient * (2 - 0.2), 1e-15);
  }
}

TEST(LearningRate, inverse_sqrt_falls_with_the_root_of_the_step_and_not_below_the_minimum) {
  EXPECT_DOUBLE_EQ(learning_rate(named("inverse_sqrt"), 2, 40, 100), 1);
  EXPECT_DOUBLE_EQ(learning_rate(named("inverse_sqrt"), 2, 100000, 100), 0.2);
}

TEST(LearningRate, never_rises_after_the_warmup) {
  for (const LrSchedule& schedule : lr_schedules()) {
    LrScheduleOptions how = named(schedule.name);
    for (const LrDecay& decay : lr_decays()) {
      how.decay_type = decay.name;
      for (std::int64_t step = 10; step < 100; ++step) {
        EXPECT_LE(learning_rate(how, 2, step + 1, 100), learning_rate(how, 2, step, 100))
            << how.name << " " << decay.name << " " << step;
      }
    }
  }
}

TEST(LearningRate, depends_on_the_length_of_the_run_if_its_entry_says_so) {
  for (const LrSchedule& schedule : lr_schedules()) {
    bool depends = false;
    for (std::int64_t step = 1; step <= 100; ++step) {
      depends |= learning_rate(named(schedule.name), 2, step, 100) !=
                 learning_rate(named(schedule.name), 2, step, 200);
    }
    EXPECT_EQ(depends, schedule.depends_on_length) << schedule.name;
  }
}

TEST(LearningRate, without_warmup_begins_at_once) {
  LrScheduleOptions how = named("cosine");
  how.warmup_steps = 0;
  EXPECT_GT(learning_rate(how, 2, 1, 100), 1.99);
}

}  // namespace
}  // namespace trireme
