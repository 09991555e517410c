#include "parallel/expert/expert_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "model/base/error.h"

namespace trireme {
namespace {

using testing::ElementsAre;

struct Exchange {
  int ranks;
  std::int64_t experts;
  std::vector<float> counts;

  ExpertCounts view() const { return {counts, ranks, experts}; }
  // The rounds of every rank, and the starts of its groups.
  std::vector<std::vector<ExpertRound>> rounds(std::int64_t capacity,
                                               std::vector<std::vector<std::int32_t>>& starts) {
    std::vector<std::vector<ExpertRound>> all;
    starts.resize(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      all.push_back(expert_rounds(view(), rank, capacity, starts[rank]));
    }
    return all;
  }
};

// Each rank has `pairs` rows, of experts drawn with very different odds.
Exchange drawn(std::mt19937& random, int ranks, std::int64_t own, std::int64_t pairs) {
  Exchange exchange{ranks, ranks * own, std::vector<float>(ranks * ranks * own)};
  std::exponential_distribution<double> odds(1);
  std::vector<double> weights(exchange.experts);
  for (double& weight : weights) weight = std::pow(odds(random), 3);
  std::discrete_distribution<int> expert(weights.begin(), weights.end());
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      ++exchange.counts[rank * exchange.experts + expert(random)];
    }
  }
  return exchange;
}

TEST(ExpertRounds, of_even_counts_are_one) {
  std::vector<std::int32_t> starts;
  const std::vector<float> counts{1, 2, 2, 1, 3, 0, 1, 2};  // 2 ranks, 4 experts
  const auto rounds = expert_rounds({counts, 2, 4}, /*own=*/1, /*capacity=*/6, starts);
  ASSERT_EQ(rounds.size(), 1u);
  EXPECT_EQ(rounds[0].first_rank, 0);
  EXPECT_EQ(rounds[0].ranks, 2);
  EXPECT_EQ(rounds[0].rows, 6);
  EXPECT_THAT(rounds[0].received, ElementsAre(3, 3));
  EXPECT_THAT(rounds[0].sent, ElementsAre(3, 3));
  EXPECT_THAT(rounds[0].sent_from, ElementsAre(0, 3));
  EXPECT_THAT(starts, ElementsAre(0, 2, 3, 4, 6));
}

TEST(ExpertRounds, of_one_busy_rank_are_as_many_as_the_senders_need) {
  Exchange exchange{3, 3, {4, 0, 0, 4, 0, 0, 4, 0, 0}};  // all rows to the first rank
  std::vector<std::vector<std::int32_t>> starts;
  const auto rounds = exchange.rounds(/*capacity=*/8, starts);
  ASSERT_EQ(rounds[0].size(), 2u);
  EXPECT_THAT(rounds[0][0].received, ElementsAre(4, 4, 0));
  EXPECT_THAT(rounds[0][1].received, ElementsAre(0, 0, 4));
  EXPECT_EQ(rounds[0][1].first_rank, 2);
  EXPECT_THAT(starts[0], ElementsAre(0, 4, 8, 0, 4));
  for (int rank : {1, 2}) {
    ASSERT_EQ(rounds[rank].size(), 2u);
    EXPECT_EQ(rounds[rank][0].rows + rounds[rank][1].rows, 0);
  }
}

TEST(ExpertRounds, carry_every_row_once_within_the_capacity) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const int ranks = 1 << random() % 4;
    const std::int64_t pairs = 1 + random() % 40;
    Exchange exchange = drawn(random, ranks, 1 + random() % 4, pairs);
    const std::int64_t capacity = pairs + random() % (pairs + 1);
    std::vector<std::vector<std::int32_t>> starts;
    const auto rounds = exchange.rounds(capacity, starts);
    std::vector<std::int64_t> carried(ranks * ranks);
    for (std::size_t r = 0; r < rounds[0].size(); ++r) {
      for (int to = 0; to < ranks; ++to) {
        ASSERT_EQ(rounds[to].size(), rounds[0].size());
        const ExpertRound& round = rounds[to][r];
        ASSERT_LE(round.rows, capacity);
        for (int from = 0; from < ranks; ++from) {
          ASSERT_EQ(rounds[from][r].sent[to], round.received[from]);
          carried[from * ranks + to] += round.received[from];
          const bool is_in_round =
              from >= round.first_rank && from < round.first_rank + round.ranks;
          ASSERT_TRUE(is_in_round || round.received[from] == 0);
        }
      }
    }
    for (int rank = 0; rank < ranks; ++rank) {
      int in_rounds = 0;
      std::size_t at = 0;
      for (const ExpertRound& round : rounds[rank]) {
        ASSERT_EQ(round.ranks > 0 ? round.first_rank : in_rounds, in_rounds)
            << "each rank's rows are in one round";
        in_rounds += round.ranks;
        const std::size_t groups = round.ranks * exchange.view().own_experts();
        ASSERT_EQ(starts[rank][at], 0);
        ASSERT_EQ(starts[rank][at + groups], round.rows);
        at += groups + 1;
      }
      ASSERT_EQ(in_rounds, ranks);
      ASSERT_EQ(at, starts[rank].size());
      for (int from = 0; from < ranks; ++from) {
        ASSERT_EQ(carried[from * ranks + rank], exchange.view().sent(from, rank));
      }
    }
  }
}

TEST(ExpertRounds, refuse_a_capacity_below_one_ranks_rows) {
  std::vector<std::int32_t> starts;
  const std::vector<float> counts{5, 0, 0, 5};
  EXPECT_THROW(expert_rounds({counts, 2, 2}, 0, 4, starts), Error);
}

// Every token chooses the experts of the first rank, or as many as there are.
TEST(ExpertBuffer, most_rounds_are_those_of_tokens_that_all_choose_one_rank) {
  constexpr std::int64_t kTokens = 24;
  for (const int ranks : {2, 4, 8}) {
    for (const std::int64_t own : {1, 2, 4}) {
      for (const std::int64_t top_k : {1, 2, 3}) {
        for (const double factor : {1.0, 1.25, 1.5, 2.0, 3.0, 8.0}) {
          const ExpertBuffer buffer{ranks, ranks * own, top_k, kTokens, factor};
          Exchange exchange{ranks, ranks * own, std::vector<float>(ranks * ranks * own)};
          for (int rank = 0; rank < ranks; ++rank) {
            for (std::int64_t e = 0; e < std::min(own, top_k); ++e) {
              exchange.counts[rank * ranks * own + e] = kTokens;
            }
          }
          std::vector<std::int32_t> starts;
          const auto rounds = expert_rounds(exchange.view(), 0, buffer.capacity(), starts);
          std::int64_t rows = 0;
          for (const ExpertRound& round : rounds) {
            rows += round.rows;
            EXPECT_LE(round.rows, buffer.capacity());
          }
          EXPECT_EQ(buffer.most_rounds(), std::ssize(rounds)) << ranks << own << top_k << factor;
          EXPECT_EQ(buffer.most(), rows);
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
