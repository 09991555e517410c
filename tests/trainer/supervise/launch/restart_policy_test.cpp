#include "trainer/supervise/launch/restart_policy.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

constexpr int kKilled = 137;

RestartDecision after(RestartPolicy& policy, int code, std::int64_t step, bool was_asked = false) {
  return policy.after({.exit_code = code, .step = step, .was_asked = was_asked});
}

TEST(restart_policy, a_run_that_is_done_or_stopped_is_left_alone) {
  RestartPolicy policy(10, 5, 0);
  EXPECT_FALSE(after(policy, 0, 100).restarts);
  const RestartDecision stopped = after(policy, 75, 120);
  EXPECT_FALSE(stopped.restarts);
  EXPECT_EQ(stopped.exit_code, 75);
}

TEST(restart_policy, goes_on_after_a_stop_that_it_asked_for) {
  RestartPolicy policy(0, 5, 0);
  const RestartDecision next = after(policy, 75, 10, /*was_asked=*/true);
  EXPECT_TRUE(next.restarts);
  EXPECT_EQ(next.wait_s, 0);
  EXPECT_EQ(policy.restarts(), 0);
}

TEST(restart_policy, what_a_restart_would_not_mend_is_not_tried) {
  for (const int code : {2, 6}) {
    RestartPolicy policy(10, 5, 0);
    const RestartDecision next = after(policy, code, 50);
    EXPECT_FALSE(next.restarts) << code;
    EXPECT_EQ(next.exit_code, code);
  }
  for (const int code : {3, 4, 5}) {
    RestartPolicy fresh(10, 5, 20);
    EXPECT_FALSE(after(fresh, code, 20).restarts) << code;
    EXPECT_EQ(fresh.restarts(), 0);
    RestartPolicy under_way(10, 5, 20);
    EXPECT_TRUE(after(under_way, code, 21).restarts) << code;
  }
}

TEST(restart_policy, failures_with_progress_are_restarted_at_once) {
  RestartPolicy policy(1000, 5, 0);
  for (int step = 1; step <= 100; ++step) {
    const RestartDecision next = after(policy, step % 2 ? 7 : kKilled, step);
    ASSERT_TRUE(next.restarts);
    EXPECT_EQ(next.wait_s, 0);
  }
}

TEST(restart_policy, the_third_incarnation_in_a_row_without_a_new_step_is_the_last) {
  RestartPolicy policy(1000, 5, 40);
  EXPECT_EQ(after(policy, kKilled, 40).wait_s, 5);
  EXPECT_EQ(after(policy, kKilled, 33).wait_s, 30);  // it got back to an older one only
  const RestartDecision last = after(policy, kKilled, 40);
  EXPECT_FALSE(last.restarts);
  EXPECT_EQ(last.exit_code, 93);
}

TEST(restart_policy, one_new_step_is_progress) {
  RestartPolicy policy(1000, 5, 40);
  after(policy, 7, 40);
  after(policy, 7, 40);
  EXPECT_EQ(after(policy, 7, 41).wait_s, 0);
  EXPECT_EQ(after(policy, 7, 41).wait_s, 5);
}

TEST(restart_policy, without_an_unfit_host_it_is_tried_at_once) {
  RestartPolicy policy(10, 5, 40);
  for (const int code : {5, 7, 5, 7}) {
    const RestartDecision next =
        policy.after({.exit_code = code, .step = 40, .excludes_host = true});
    EXPECT_TRUE(next.restarts);
    EXPECT_EQ(next.wait_s, 0);
  }
  EXPECT_EQ(policy.restarts(), 4);
  EXPECT_FALSE(after(policy, 5, 40).restarts);
  EXPECT_FALSE(policy.after({.exit_code = 2, .step = 40, .excludes_host = true}).restarts);
}

TEST(restart_policy, restarts_are_counted) {
  RestartPolicy policy(2, 0, 0);
  EXPECT_TRUE(after(policy, 7, 1).restarts);
  EXPECT_TRUE(after(policy, 7, 2).restarts);
  const RestartDecision last = after(policy, 7, 3);
  EXPECT_FALSE(last.restarts);
  EXPECT_EQ(last.exit_code, 7);
}

}  // namespace
}  // namespace trireme
