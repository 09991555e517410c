#include "checkpoint/memory/nodes.h"

#include <gtest/gtest.h>

namespace trireme::checkpoint {
namespace {

TEST(Nodes, copies_go_round_by_one_node) {
  const Nodes nodes = Nodes::by_host({"a", "b", "a", "c", "b", "b"});
  EXPECT_EQ(nodes.count(), 3);
  EXPECT_EQ(nodes.ranks(1), (std::vector<int>{1, 4, 5}));
  EXPECT_EQ(nodes.keeper(0), 1);
  EXPECT_EQ(nodes.keeper(2), 4);
  EXPECT_EQ(nodes.keeper(4), 3);
  EXPECT_EQ(nodes.kept_by(3), (std::vector<int>{1, 4, 5}));
  EXPECT_EQ(nodes.keeper(3), 0);
  EXPECT_TRUE(nodes.leads(1));
  EXPECT_FALSE(nodes.leads(4));
  EXPECT_FALSE(Nodes({0, 0}).keeper(1).has_value());
}

}  // namespace
}  // namespace trireme::checkpoint
