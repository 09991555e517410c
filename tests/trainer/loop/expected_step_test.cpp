#include "trainer/loop/self_check.h"

#include <gtest/gtest.h>

#include <fstream>

#include "model/base/file.h"
#include "tests/trainer/telemetry/scratch_folder.h"
#include "trainer/telemetry/metrics_log.h"

namespace trireme {
namespace {

// A run folder whose metrics go to step 6, and which was last started at step 2.
class ExpectedStepTest : public testing::Test {
 protected:
  ExpectedStepTest() {
    MetricsLog log(run_ / "metrics.jsonl", 0);
    for (std::int64_t step = 1; step <= 6; ++step) {
      StepMetrics metrics;
      metrics.step = step;
      metrics.loss = loss_of(step);
      metrics.grad_norm = 0.1 * static_cast<double>(step);
      if (step > 4) metrics.more.emplace_back("skips", 2);
      log.append(metrics);
    }
    write_self_check(run_, 2, computation_, std::nullopt);
  }

  static double loss_of(std::int64_t step) { return 1.0 / (3.0 + static_cast<double>(step)); }
  static TrainState at(std::int64_t step) {
    TrainState progress;
    progress.step = step;
    progress.loss = loss_of(step);
    progress.grad_norm = 0.1 * static_cast<double>(step);
    progress.weights = "0123";
    return progress;
  }

  const ScratchFolder scratch_;
  const std::filesystem::path run_ = scratch_.path();
  const Computation computation_{{"threads", "1"}};
};

TEST_F(ExpectedStepTest, is_what_the_metrics_say_to_the_bit) {
  const Expectation found = expected_step(run_, at(4));
  ASSERT_TRUE(found.step);
  EXPECT_EQ(found.step->step, 5);
  EXPECT_EQ(found.step->taken.loss, loss_of(5));
  EXPECT_EQ(found.step->taken.grad_norm, 0.1 * 5);
  EXPECT_EQ(found.step->taken.skips, 2);
  EXPECT_EQ(found.step->taken.rollbacks, 0);
  EXPECT_EQ(found.step->computation, computation_);
}

TEST_F(ExpectedStepTest, is_not_known_where_the_run_had_not_got_there) {
  const Expectation found = expected_step(run_, at(6));
  EXPECT_FALSE(found.step);
  EXPECT_EQ(found.why_none, "the run had not reached step 7");
}

TEST_F(ExpectedStepTest, is_not_taken_from_another_run) {
  TrainState other = at(4);
  other.loss *= 1 + 1e-15;
  EXPECT_FALSE(expected_step(run_, other).step);
  EXPECT_FALSE(expected_step(run_, at(1)).step);  // it has been started since
  std::filesystem::remove(run_ / "self_check.json");
  EXPECT_FALSE(expected_step(run_, at(4)).step);
}

TEST_F(ExpectedStepTest, is_known_from_before_starts_that_compute_the_same) {
  write_self_check(run_, 5, computation_, std::nullopt);
  EXPECT_TRUE(expected_step(run_, at(2)).step);
  write_self_check(run_, 6, {{"threads", "8"}}, std::nullopt);
  EXPECT_EQ(expected_step(run_, at(2)).why_none, "the steps up to 6 were computed differently");
}

TEST_F(ExpectedStepTest, survives_a_resume_that_did_not_get_there) {
  const Expectation first = expected_step(run_, at(4));
  write_self_check(run_, 4, {{"threads", "8"}}, first.step);
  MetricsLog(run_ / "metrics.jsonl", 4);  // cuts the rest
  const Expectation second = expected_step(run_, at(4));
  ASSERT_TRUE(second.step);
  EXPECT_EQ(second.step->taken.loss, loss_of(5));
  EXPECT_EQ(second.step->computation, computation_);
  EXPECT_FALSE(expected_step(run_, at(3)).step);
  TrainState other_weights = at(4);
  other_weights.weights = "4567";
  EXPECT_FALSE(expected_step(run_, other_weights).step);
}

TEST_F(ExpectedStepTest, is_not_known_from_a_file_that_is_not_ours) {
  replace_text(run_ / "self_check.json", "{\"since\": \"two\"}");
  EXPECT_FALSE(expected_step(run_, at(4)).step);
  write_self_check(run_, 2, computation_, std::nullopt);
  std::ofstream(run_ / "metrics.jsonl") << "{\"step\": 5, \"loss\": nu";
  EXPECT_FALSE(expected_step(run_, at(4)).step);
}

}  // namespace
}  // namespace trireme
