#include "parallel/pipeline/balance.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "tests/parallel/pipeline/cases.h"

namespace trireme::test {
namespace {

using Blocks = std::vector<std::int64_t>;

double slowest(const LayerCosts& costs, const Blocks& blocks) {
  const std::vector<double> each = stage_costs(costs, blocks);
  return *std::max_element(each.begin(), each.end());
}

// Calls visit with every way to share out `blocks` over `stages`.
void for_each_division(std::int64_t blocks, int stages, const std::function<void(Blocks)>& visit,
                       const Blocks& so_far = {}) {
  if (stages == 1) {
    Blocks whole = so_far;
    whole.push_back(blocks);
    visit(whole);
    return;
  }
  for (std::int64_t n = 1; n <= blocks - stages + 1; ++n) {
    Blocks more = so_far;
    more.push_back(n);
    for_each_division(blocks - n, stages - 1, visit, more);
  }
}

TEST(Balance, no_division_has_a_faster_slowest_stage) {
  Random random(10);
  for (int i = 0; i < 200; ++i) {
    LayerCosts costs;
    const std::size_t blocks = 1 + pick(random, 9);
    // Whole numbers, so that sums are exact.
    for (std::size_t b = 0; b < blocks; ++b) {
      costs.blocks.push_back(static_cast<double>(1 + pick(random, 20)));
    }
    costs.embedding = static_cast<double>(pick(random, 30));
    costs.head = static_cast<double>(pick(random, 60));
    const int stages = static_cast<int>(1 + pick(random, blocks));
    const Blocks found = balance_blocks(costs, stages);
    ASSERT_EQ(found.size(), static_cast<std::size_t>(stages));
    EXPECT_EQ(std::accumulate(found.begin(), found.end(), std::int64_t{0}),
              static_cast<std::int64_t>(blocks));
    EXPECT_GE(*std::min_element(found.begin(), found.end()), 1);
    for_each_division(static_cast<std::int64_t>(blocks), stages, [&](const Blocks& other) {
      EXPECT_LE(slowest(costs, found), slowest(costs, other));
    });
  }
}

TEST(Balance, equal_blocks_are_shared_out_evenly) {
  EXPECT_EQ(balance_blocks({std::vector<double>(32, 1.0)}, 4), (Blocks{8, 8, 8, 8}));
  const Blocks uneven = balance_blocks({std::vector<double>(10, 1.0)}, 4);
  EXPECT_EQ(*std::max_element(uneven.begin(), uneven.end()), 3);
  EXPECT_EQ(*std::min_element(uneven.begin(), uneven.end()), 2);
}

TEST(Balance, the_head_and_the_embedding_take_blocks_from_their_stages) {
  EXPECT_EQ(balance_blocks({std::vector<double>(16, 1.0), 0, 4}, 4), (Blocks{5, 5, 5, 1}));
  EXPECT_EQ(balance_blocks({std::vector<double>(16, 1.0), 2, 2}, 4), (Blocks{3, 5, 5, 3}));
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

TEST(Balance, more_stages_than_layers_are_refused) {
  EXPECT_EQ(refusal([] {
              balance_blocks({{1, 1, 1}}, 4);
            }),
            "3 layers cannot be distributed over 4 pipeline stages (parallelism.pipeline x "
            "parallelism.virtual_stages): use at most 3");
}

TEST(Balance, a_list_of_the_config_is_taken_as_it_is_or_refused) {
  EXPECT_EQ(check_blocks_per_stage({1, 2, 5}, 8, 3), (Blocks{1, 2, 5}));
  const auto refused = [](const Blocks& list) {
    return refusal([&] { check_blocks_per_stage(list, 8, 3); });
  };
  EXPECT_EQ(refused({4, 4}),
            "parallelism.layers_per_stage has 2 numbers for 3 stages (parallelism.pipeline x "
            "parallelism.virtual_stages)");
  EXPECT_EQ(refused({0, 4, 4}),
            "parallelism.layers_per_stage has 0: every stage needs at least 1 layer");
  EXPECT_EQ(refused({1, 2, 4}),
            "parallelism.layers_per_stage adds up to 7, but model.num_hidden_layers is 8");
}

}  // namespace
}  // namespace trireme::test
