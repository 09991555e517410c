#include "trainer/supervise/launch/run_follower.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace trireme {
namespace {

class Following : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("follow" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void append(const char* file, const std::string& text) {
    std::ofstream(folder_ / file, std::ios::app) << text;
  }
  std::filesystem::path folder_;
};

TEST_F(Following, an_empty_folder_tells_nothing) {
  RunFollower follower(folder_);
  follower.look();
  EXPECT_FALSE(follower.start());
  EXPECT_EQ(newest_step(folder_), 0);
}

TEST_F(Following, what_stood_there_before_is_of_earlier_incarnations) {
  append("events.jsonl", R"({"event":"start","step":0})"
                         "\n"
                         R"({"event":"failure","step":3,"text":"old","ranks":[1]})"
                         "\n");
  append("metrics.jsonl", R"({"step":3})"
                          "\n");
  RunFollower follower(folder_);
  follower.look();
  EXPECT_FALSE(follower.start());
  EXPECT_FALSE(follower.failure());
  EXPECT_EQ(newest_step(folder_), 3);
}

TEST_F(Following, the_first_step_counts_from_the_resumed_one_on) {
  append("metrics.jsonl", "{\"step\":9}\n{\"step\":10}\n");
  RunFollower follower(folder_);
  append("events.jsonl",
         R"({"event":"resume","step":10,"from":"x","in_memory":true,"load_seconds":0.5})"
         "\n");
  follower.look();
  ASSERT_TRUE(follower.start());
  EXPECT_EQ(follower.start()->step, 10);
  EXPECT_TRUE(follower.start()->in_memory);
  EXPECT_EQ(follower.start()->load_seconds, 0.5);
  EXPECT_FALSE(follower.first_step_at());
  append("metrics.jsonl", "{\"step\":11}\n{\"step\":1");  // torn
  follower.look();
  EXPECT_TRUE(follower.first_step_at());
  EXPECT_EQ(follower.step(), 11);
}

TEST_F(Following, lines_may_come_in_parts) {
  RunFollower follower(folder_);
  append("events.jsonl", R"({"event":"failure","step":3,"text":"rank 1 )");
  follower.look();
  EXPECT_FALSE(follower.failure());
  append("events.jsonl", R"(was killed","ranks":[1],"health":"failed","detect_seconds":0.25})"
                         "\n"
                         R"({"event":"failure","step":4,"text":"a second","ranks":[2]})"
                         "\n");
  follower.look();
  ASSERT_TRUE(follower.failure());
  EXPECT_EQ(follower.failure()->text, "rank 1 was killed");
  EXPECT_TRUE(follower.failure()->has_own_code);
  EXPECT_EQ(follower.failure()->detect_seconds, 0.25);
}

TEST_F(Following, a_preflight_that_failed_accuses_ranks_and_their_hosts) {
  RunFollower follower(folder_);
  append("events.jsonl", R"({"event":"preflight","step":0,"passed":true,"hosts":["a"]})"
                         "\n");
  follower.look();
  EXPECT_FALSE(follower.unfit());
  append("events.jsonl",
         R"({"event":"preflight","step":0,"passed":false,"hosts":["a","a","b"],"checks":[)"
         R"({"name":"limits","faults":[{"ranks":[2],"why":"can open 120 files"}]},)"
         R"({"name":"folders","faults":[]},)"
         R"({"name":"axes","faults":[{"ranks":[1,2],"why":"slow"}]}]})"
         "\n");
  follower.look();
  ASSERT_TRUE(follower.unfit());
  EXPECT_EQ(follower.unfit()->ranks, (std::vector<int>{2, 1}));
  EXPECT_EQ(follower.unfit()->hosts, (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(follower.unfit()->why, "limits: can open 120 files; axes: slow");
}

TEST_F(Following, replicas_that_differ_accuse_the_one_that_is_outvoted) {
  const auto told = [&](const char* votes) {
    RunFollower follower(folder_);
    append("events.jsonl", std::string(R"({"event":"failure","step":6,"text":"rank 2 differs",)") +
                               R"("ranks":[2],"hosts":["b"],"health":"differs","by_majority":)" +
                               votes + "}\n");
    follower.look();
    EXPECT_TRUE(follower.failure());
    return follower.unfit();
  };
  EXPECT_FALSE(told("false"));
  const auto unfit = told("true");
  ASSERT_TRUE(unfit);
  EXPECT_EQ(unfit->ranks, std::vector<int>{2});
  EXPECT_EQ(unfit->hosts, std::vector<std::string>{"b"});
  EXPECT_EQ(unfit->why, "rank 2 differs");
}

TEST_F(Following, a_step_that_was_not_applied_is_no_verdict) {
  RunFollower follower(folder_);
  append("events.jsonl", R"({"event":"failure","step":3,"text":"the loss is not finite"})"
                         "\n"
                         "not json\n"
                         R"({"event":"stop","step":3,"exit_code":6})"
                         "\n");
  follower.look();
  EXPECT_FALSE(follower.failure());
  EXPECT_EQ(follower.stopped().value_or(-1), 6);
}

}  // namespace
}  // namespace trireme
