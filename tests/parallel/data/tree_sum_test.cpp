#include "parallel/data/tree_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "model/tensor/arena.h"

namespace trireme {
namespace {

// Numbers whose float32 sum depends on the order.
float leaf(std::int64_t k) {
  return std::sin(static_cast<float>(k) * 12.9898F) * std::pow(10.0F, static_cast<float>(k % 7));
}

// What a tree of the leaves [first, end) is by its definition: the greatest power of two of
// them on the left.
float by_definition(std::int64_t first, std::int64_t end) {
  const std::int64_t count = end - first;
  if (count == 1) return leaf(first);
  std::int64_t left = 1;
  while (2 * left < count) left *= 2;
  return by_definition(first, first + left) + by_definition(first + left, end);
}

// The leaves [first, first + count), one after the other as a rank takes them in.
float taken_in(std::int64_t first, std::int64_t count, bool in_place) {
  Stream stream;
  Arena arena(16 * Arena::kAlignment);
  const Tensor total = arena.take({1}), elsewhere = arena.take({1});
  std::vector<Tensor> partial;
  for (int level = 0; level < TreeSum::levels(count); ++level) partial.push_back(arena.take({1}));
  for (std::int64_t k = 0; k < count; ++k) {
    const Tensor at = in_place ? TreeSum::place(k, count, total, partial) : elsewhere;
    *at.as<float>() = leaf(first + k);
    TreeSum::add(stream, k, count, at, total, partial);
  }
  return *total.as<float>();
}

TEST(TreeSum, is_the_sum_of_its_definition) {
  for (std::int64_t count = 1; count <= 40; ++count) {
    for (const bool in_place : {true, false}) {
      EXPECT_EQ(taken_in(0, count, in_place), by_definition(0, count)) << count;
    }
  }
}

TEST(TreeSum, depends_on_the_order_that_it_fixes) {
  float in_turn = 0;
  for (std::int64_t k = 0; k < 33; ++k) in_turn += leaf(k);
  EXPECT_NE(taken_in(0, 33, true), in_turn);
}

// Ranks that each sum an aligned run, and a tree of these.
TEST(TreeSum, of_aligned_runs_is_that_of_all_leaves) {
  for (const std::int64_t each : {1, 2, 4, 8}) {
    for (const std::int64_t ranks : {1, 2, 3, 4, 5, 8}) {
      std::function<float(std::int64_t, std::int64_t)> of_ranks = [&](std::int64_t first,
                                                                      std::int64_t end) -> float {
        if (end - first == 1) return taken_in(first * each, each, true);
        std::int64_t left = 1;
        while (2 * left < end - first) left *= 2;
        return of_ranks(first, first + left) + of_ranks(first + left, end);
      };
      EXPECT_EQ(of_ranks(0, ranks), by_definition(0, ranks * each)) << ranks << " of " << each;
    }
  }
}

TEST(TreeSum, waits_in_as_many_buffers_as_it_says) {
  EXPECT_EQ(TreeSum::levels(1), 0);
  EXPECT_EQ(TreeSum::levels(2), 1);
  EXPECT_EQ(TreeSum::levels(3), 2);
  EXPECT_EQ(TreeSum::levels(4), 2);
  EXPECT_EQ(TreeSum::levels(16), 4);
  EXPECT_EQ(TreeSum::levels(17), 5);
}

}  // namespace
}  // namespace trireme
