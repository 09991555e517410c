#include "trainer/engine/replica_verdict.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

using Held = std::vector<std::vector<HeldCopy>>;

const std::vector<std::string> kHosts{"a", "a", "b", "b"};

TEST(ReplicaVerdict, is_none_where_copies_agree_or_are_alone) {
  EXPECT_FALSE(judge_replicas({}));
  EXPECT_FALSE(judge_replicas({{{"w", "0+4", 7}}, {{"w", "0+4", 7}}}));
  // Other elements, or another tensor, are no copies.
  EXPECT_FALSE(judge_replicas({{{"w", "0+4", 7}}, {{"w", "4+4", 8}}, {{"v", "0+4", 9}}}));
}

TEST(ReplicaVerdict, blames_the_minority) {
  const Held held{{{"w", "p", 7}}, {{"w", "p", 7}}, {{"w", "p", 8}}, {{"w", "p", 7}}};
  const auto verdict = judge_replicas(held);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->ranks, std::vector{2});
  EXPECT_TRUE(verdict->by_majority);
  EXPECT_EQ(text_of(*verdict, kHosts),
            "rank 2 on b holds different bits of w than the replicas on ranks 0, 1 and 3");
}

TEST(ReplicaVerdict, blames_both_of_two) {
  const auto verdict = judge_replicas({{{"w", "p", 7}}, {}, {{"w", "p", 8}}, {}});
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->ranks, (std::vector{0, 2}));
  EXPECT_FALSE(verdict->by_majority);
  EXPECT_EQ(text_of(*verdict, kHosts),
            "rank 0 on a and rank 2 on b hold different bits of w, which should be identical; "
            "no majority tells which are right");
}

TEST(ReplicaVerdict, a_majority_elsewhere_decides_between_two) {
  // The norm is held four times, the matrix by ranks 1 and 3 alone.
  const Held held{{{"norm", "p", 1}},
                  {{"norm", "p", 1}, {"matrix", "p", 5}},
                  {{"norm", "p", 1}},
                  {{"norm", "p", 2}, {"matrix", "p", 6}}};
  const auto verdict = judge_replicas(held);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->ranks, std::vector{3});
  EXPECT_TRUE(verdict->by_majority);
  EXPECT_EQ(verdict->tensors, (std::vector<std::string>{"matrix", "norm"}));
  EXPECT_NE(text_of(*verdict, kHosts).find("matrix and of 1 more tensors"), std::string::npos);
}

TEST(ReplicaVerdict, copies_survive_a_message) {
  const std::vector<HeldCopy> copies{{"layers.0.mlp.up.weight (weights)", "0,0,:4,4,:0+16", 1},
                                     {"norm (adam.m)", "0,:4,:0+4", UINT64_MAX}};
  const std::vector<HeldCopy> read = parse_copies(copies_text(copies));
  ASSERT_EQ(read.size(), copies.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].tensor, copies[i].tensor);
    EXPECT_EQ(read[i].place, copies[i].place);
    EXPECT_EQ(read[i].hash, copies[i].hash);
  }
}

}  // namespace
}  // namespace trireme
