#include "trainer/tools/plan/device/links.h"

#include <gtest/gtest.h>

#include <utility>

namespace trireme {
namespace {

// 8 ranks a node, 100 bytes/s within and 10 a rank out of it, without latency.
const Network kNetwork{8, {"within", 100, 1, 0}, {"between", 10, 1, 0}};

TEST(Links, RingAllReduceSendsTheWholeTwiceButForTheOwnPart) {
  EXPECT_DOUBLE_EQ(bytes_sent(Collective::kAllReduce, 4, 1000), 1500);
  EXPECT_DOUBLE_EQ(collective_seconds(kNetwork, Collective::kAllReduce, {4, 1}, 1000), 15);
  EXPECT_DOUBLE_EQ(collective_seconds(kNetwork, Collective::kAllGather, {4, 1}, 1000), 7.5);
  EXPECT_DOUBLE_EQ(collective_seconds(kNetwork, Collective::kReduceScatter, {4, 1}, 1000), 7.5);
}

TEST(Links, AGroupOfOneSendsNothing) {
  EXPECT_EQ(bytes_sent(Collective::kAllReduce, 1, 1000), 0);
  EXPECT_EQ(collective_seconds(kNetwork, Collective::kAllReduce, {1, 1}, 1000), 0);
}

TEST(Links, RanksOfANodeShareWhatLeavesIt) {
  EXPECT_EQ(ranks_in_node(kNetwork, {16, 1}), 8);
  EXPECT_EQ(ranks_in_node(kNetwork, {16, 4}), 2);
  EXPECT_EQ(ranks_in_node(kNetwork, {16, 8}), 1);
  EXPECT_EQ(ranks_in_node(kNetwork, {4, 1}), 4);
  const auto gather = [&](const GroupShape& group) {
    return collective_seconds(kNetwork, Collective::kAllGather, group, 1600);
  };
  EXPECT_DOUBLE_EQ(gather({16, 8}), 1500 / 10.0);
  EXPECT_DOUBLE_EQ(gather({16, 4}), 1500 / 20.0);
  EXPECT_DOUBLE_EQ(gather({16, 1}), 1500 / 80.0);
}

// Of 6 adjacent ranks on nodes of 8, the second group has 2 in one node and 4 in the next.
TEST(Links, GroupsThatDoNotDivideANodeCrossNodes) {
  EXPECT_EQ(ranks_in_node(kNetwork, {6, 1}), 2);
  EXPECT_EQ(ranks_in_node(kNetwork, {12, 1}), 4);
  for (const int size : {3, 5, 7}) {
    EXPECT_EQ(ranks_in_node(kNetwork, {size, 1}), 1);
    const double bytes = 1000.0 * size;
    EXPECT_DOUBLE_EQ(collective_seconds(kNetwork, Collective::kAllGather, {size, 1}, bytes),
                     (size - 1) * 1000 / 10.0);
  }
  EXPECT_EQ(ranks_in_node(kNetwork, {4, 3}), 1);
  // A run of one node has no other.
  EXPECT_EQ(ranks_in_node(kNetwork, {3, 1, 6}), 3);
  EXPECT_EQ(ranks_in_node(kNetwork, {2, 3, 6}), 2);
}

// Seven links of 10 bytes/s to the other ranks of the node.
TEST(Links, AGroupOfPairwiseLinksUsesThoseAmongItsRanks) {
  Network network{8, {"within", 70, 1, 0}, {"between", 10, 1, 0}};
  network.pairwise = true;
  const auto seconds = [&](Collective collective, int size) {
    return collective_seconds(network, collective, {size, 1}, 840);
  };
  EXPECT_DOUBLE_EQ(seconds(Collective::kAllGather, 8), 735 / 70.0);
  EXPECT_DOUBLE_EQ(seconds(Collective::kAllGather, 4), 630 / 30.0);
  EXPECT_DOUBLE_EQ(seconds(Collective::kAllGather, 2), 420 / 10.0);
  EXPECT_DOUBLE_EQ(seconds(Collective::kAllToAll, 4), 630 / 30.0);
  EXPECT_DOUBLE_EQ(seconds(Collective::kSend, 2), 840 / 10.0);
  EXPECT_DOUBLE_EQ(seconds(Collective::kAllGather, 16), 787.5 / 70);
  // One rank a node.
  EXPECT_DOUBLE_EQ(collective_seconds(network, Collective::kAllToAll, {4, 8}, 840), 630 / 10.0);
}

TEST(Links, ASmallGroupHasTheLinkOfTheSmallestMeasuredThatHoldsIt) {
  Network network{8, {"within", 100, 1, 7}, {"between", 10, 1, 0}};
  network.within_groups = {{2, {"of 2", 100, 1, 1}}, {4, {"of 4", 100, 1, 3}}};
  const auto latency = [&](int size) {
    return collective_seconds(network, Collective::kAllGather, {size, 1, 8}, 0) / size;
  };
  EXPECT_DOUBLE_EQ(latency(2), 1);
  EXPECT_DOUBLE_EQ(latency(3), 3);
  EXPECT_DOUBLE_EQ(latency(4), 3);
  EXPECT_DOUBLE_EQ(latency(8), 7);
  EXPECT_DOUBLE_EQ(collective_seconds(network, Collective::kSend, {2, 4, 8}, 0), 1);
}

TEST(Links, RunsUseRacksEvenly) {
  Network rack{72, {"within", 100, 1, 0}, {"between", 10, 1, 0}};
  EXPECT_EQ(with_even_nodes(rack, 256).ranks_per_node, 72);
  rack.even = true;
  for (const auto& [ranks, of_rack] :
       {std::pair{256, 64}, {16384, 64}, {144, 72}, {320, 64}, {8, 8}, {73, 72}}) {
    EXPECT_EQ(with_even_nodes(rack, ranks).ranks_per_node, of_rack) << ranks;
  }
  const Network even = with_even_nodes(rack, 256);
  EXPECT_DOUBLE_EQ(collective_seconds(even, Collective::kAllGather, {64, 1}, 6400), 63);
  EXPECT_EQ(ranks_in_node(rack, {64, 1}), 8);
}

// 63 steps of 1 s or, by LL128, of 1/4 s at 0.7 of the rate.
TEST(Links, LittleIsGatheredWithLessLatency) {
  Network slow{1, {"within", 10, 1, 1}, {"between", 10, 1, 1}};
  const auto gather = [&](double bytes) {
    return collective_seconds(slow, Collective::kAllGather, {64, 1}, bytes);
  };
  const double little = 64, much = 64000;
  EXPECT_DOUBLE_EQ(gather(little), 64 + 6.3);
  slow.within.ll128_latency = slow.between.ll128_latency = 0.25;
  EXPECT_NEAR(gather(little), 16 + 6.3 / 0.7, 1e-4);
  EXPECT_DOUBLE_EQ(gather(much), 64 + 6300);
  // A tree reaches 0.92.
  EXPECT_NEAR(collective_seconds(slow, Collective::kAllReduce, {64, 1}, 64), 12 + 12.8 / 0.92,
              1e-9);
}

TEST(Links, LittleIsSummedByATree) {
  const Network slow{1, {"within", 1e9, 1, 0}, {"between", 1e9, 1, 1}};
  const double ring_laps = 2 * 64;
  EXPECT_LT(collective_seconds(slow, Collective::kAllReduce, {64, 1}, 8), ring_laps / 8);
  EXPECT_DOUBLE_EQ(collective_seconds(slow, Collective::kAllGather, {64, 1}, 0), 64);
}

}  // namespace
}  // namespace trireme
