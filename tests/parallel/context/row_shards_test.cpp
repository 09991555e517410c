#include "parallel/context/row_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "model/base/error.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using Rows = std::vector<std::int32_t>;

// document_start of documents of these lengths; the last one is repeated to fill the sequence.
Rows packed(std::int64_t seq_len, const std::vector<std::int64_t>& lengths) {
  Rows starts;
  std::int64_t start = 0, end = 0;
  for (std::size_t document = 0; std::ssize(starts) < seq_len; ++document) {
    start = end;
    end = std::min(start + lengths[std::min(document, lengths.size() - 1)], seq_len);
    starts.resize(static_cast<std::size_t>(end), static_cast<std::int32_t>(start));
  }
  return starts;
}

// Documents of log-normal lengths, the first of which may have begun in the sequence before.
Rows drawn_packing(std::mt19937& random, std::int64_t seq_len, double median, double sigma) {
  std::lognormal_distribution<double> length(std::log(median), sigma);
  std::vector<std::int64_t> lengths;
  for (std::int64_t sum = 0; sum < seq_len; sum += lengths.back()) {
    const auto drawn = std::max<std::int64_t>(1, std::llround(length(random)));
    lengths.push_back(lengths.empty() ? 1 + random() % drawn : drawn);
  }
  return packed(seq_len, lengths);
}

struct Shards {
  std::int64_t own_rows;
  Rows rows;
  std::vector<std::int64_t> pairs;  // of each rank

  std::span<const std::int32_t> of(int rank) const {
    return std::span(rows).subspan(rank * own_rows, own_rows);
  }
  std::int64_t most() const { return *std::ranges::max_element(pairs); }
  double most_by_mean(const Rows& document_start) const {
    std::int64_t all = 0;
    for (std::size_t t = 0; t < document_start.size(); ++t) all += t + 1 - document_start[t];
    return static_cast<double>(most() * std::ssize(pairs)) / static_cast<double>(all);
  }
};

// The shards, once checked to be a partition in ascending order.
Shards sharded(const Rows& document_start, int ranks) {
  Shards shards{std::ssize(document_start) / ranks, Rows(document_start.size(), -1), {}};
  shard_rows(shards.rows, document_start, ranks);
  std::vector<int> holders(document_start.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const auto own = shards.of(rank);
    EXPECT_TRUE(std::ranges::is_sorted(own)) << rank;
    for (const std::int32_t row : own) ++holders.at(row);
    shards.pairs.push_back(query_key_pairs(own, document_start));
  }
  EXPECT_EQ(std::ranges::count(holders, 1), std::ssize(holders)) << "each row has one holder";
  return shards;
}

// Whether the consecutive rows of every rank are whole tiles.
bool has_whole_tiles(const Shards& shards) {
  constexpr std::int64_t kTileRows = 64;
  for (std::int64_t i = 0; i < std::ssize(shards.rows); i += kTileRows) {
    if (shards.rows[i] % kTileRows != 0) return false;
    if (shards.rows[i + kTileRows - 1] != shards.rows[i] + kTileRows - 1) return false;
  }
  return true;
}

TEST(QueryKeyPairs, count_the_rows_seen) {
  const Rows document_start{0, 0, 0, 3, 3, 5};
  EXPECT_EQ(query_key_pairs(Rows{0, 1, 2, 3, 4, 5}, document_start), 1 + 2 + 3 + 1 + 2 + 1);
  EXPECT_EQ(query_key_pairs(Rows{2, 4}, document_start), 3 + 2);
  EXPECT_EQ(query_key_pairs(Rows{}, document_start), 0);
}

TEST(RowShards, of_one_document_are_an_early_and_a_late_chunk) {
  EXPECT_THAT(sharded(Rows(12), 2).rows, ElementsAre(0, 1, 2, 9, 10, 11, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(sharded(Rows(6), 3).rows, ElementsAre(0, 5, 1, 4, 2, 3));
}

TEST(RowShards, of_one_document_have_equal_pairs) {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    for (const std::int64_t multiple : {1, 2, 3, 7, 32, 50, 64, 100}) {
      const std::int64_t seq_len = multiple * row_multiple(ranks);
      const Shards shards = sharded(Rows(seq_len), ranks);
      ASSERT_EQ(shards.most() * ranks, seq_len * (seq_len + 1) / 2) << seq_len << " " << ranks;
    }
  }
}

TEST(RowShards, of_random_packings_are_balanced) {
  struct Case {
    std::int64_t seq_len;
    int ranks;
    bool is_in_tiles;  // for certain: there are many more tiles than ranks
  };
  for (const Case& c : {Case{2048, 2, true}, Case{2048, 4, false}, Case{8192, 2, true},
                        Case{8192, 4, true}, Case{8192, 8, false}}) {
    std::mt19937 random(11);
    std::vector<double> found;
    for (int i = 0; i < 1000; ++i) {
      const double median = 50 * std::pow(40, i % 9 / 8.0);  // 50 to 2,000
      const double sigma = 0.5 + i / 9 % 3 * 0.5;
      const Rows document_start = drawn_packing(random, c.seq_len, median, sigma);
      const Shards shards = sharded(document_start, c.ranks);
      ASSERT_EQ(shards.rows, sharded(document_start, c.ranks).rows);
      found.push_back(shards.most_by_mean(document_start));
      ASSERT_LE(found.back(), 1.03) << median << " " << sigma;
      ASSERT_TRUE(!c.is_in_tiles || has_whole_tiles(shards)) << median << " " << sigma;
    }
    std::ranges::sort(found);
    EXPECT_LE(found[found.size() * 95 / 100], 1.01) << c.seq_len << " " << c.ranks;
    std::cout << c.seq_len << " rows over " << c.ranks << " ranks, most pairs by mean: median "
              << found[found.size() / 2] << ", worst " << found.back() << "\n";
  }
}

TEST(RowShards, of_uneven_documents_are_balanced) {
  for (const auto& [seq_len, ranks] : {std::pair{2048, 2}, {2048, 8}, {6144, 6}, {8192, 8}}) {
    for (const std::int64_t length : {seq_len / 20, seq_len / 5, seq_len / 2, seq_len - 1}) {
      // Among documents of one token, at the start and at the end.
      const Rows first = packed(seq_len, {length, 1});
      std::vector<std::int64_t> lengths(seq_len - length, 1);
      lengths.push_back(length);
      const Rows last = packed(seq_len, lengths);
      for (const Rows& document_start : {first, last}) {
        EXPECT_LE(sharded(document_start, ranks).most_by_mean(document_start), 1.05)
            << seq_len << " " << ranks << " " << length;
      }
    }
    const Rows short_then_half = packed(seq_len, {seq_len / 4, seq_len / 4, seq_len / 2});
    EXPECT_LE(sharded(short_then_half, ranks).most_by_mean(short_then_half), 1.05);
    EXPECT_EQ(sharded(packed(seq_len, {1}), ranks).most(), seq_len / ranks);
  }
}

// Half of a rank's 960 rows is no whole number of tiles, nor is a quarter; a fifth is.
TEST(RowShards, of_uneven_halves_are_whole_tiles) {
  for (const Rows& document_start : {packed(1920, {700, 300, 920}), packed(1920, {500, 1420})}) {
    const Shards shards = sharded(document_start, 2);
    EXPECT_TRUE(has_whole_tiles(shards));
    EXPECT_LE(shards.most_by_mean(document_start), 1.01);
  }
}

// Shorter chunks do not balance these documents better.
TEST(RowShards, are_not_worse_than_those_of_two_chunks_each) {
  const Rows document_start = packed(512, {282, 230});
  std::vector<std::int64_t> quarters;
  for (int first = 0; first < 512; first += 128) {
    Rows rows(128);
    std::iota(rows.begin(), rows.end(), first);
    quarters.push_back(query_key_pairs(rows, document_start));
  }
  std::ranges::sort(quarters);
  EXPECT_LE(sharded(document_start, 2).most(),
            std::max(quarters[0] + quarters[3], quarters[1] + quarters[2]));
}

// A row cannot be divided: at best the heaviest is with the lightest.
TEST(RowShards, of_tiny_sequences_are_as_even_as_rows_allow) {
  const Shards four = sharded({0, 0, 0, 3}, 2);  // pairs 1 2 3 1
  EXPECT_EQ(four.most(), 4);
  EXPECT_EQ(sharded({0, 0, 2, 2}, 2).most(), 3);
  EXPECT_EQ(sharded(packed(4, {3, 1}), 2).rows, four.rows);
  EXPECT_EQ(sharded(packed(16, {9, 1}), 8).most(), 9 + 1);
  EXPECT_EQ(sharded(packed(16, {1, 2, 13}), 8).most(), 13 + 1);
  EXPECT_EQ(sharded(packed(16, {2}), 8).most(), 3);
  EXPECT_EQ(sharded(packed(16, {1}), 8).most(), 2);
}

TEST(RowShards, of_rows_that_are_no_whole_tiles_are_balanced) {
  std::mt19937 random(12);
  for (const auto& [seq_len, ranks] : {std::pair{1200, 3}, {2002, 7}, {4000, 4}, {6036, 6}}) {
    for (int i = 0; i < 50; ++i) {
      const Rows document_start = drawn_packing(random, seq_len, 100, 1);
      ASSERT_LE(sharded(document_start, ranks).most_by_mean(document_start), 1.05)
          << seq_len << " " << ranks;
    }
  }
}

TEST(RowShards, of_a_million_rows_over_64_ranks_are_balanced) {
  constexpr std::int64_t kRows = 1 << 20;
  std::mt19937 random(13);
  for (const Rows& document_start :
       {Rows(kRows), packed(kRows, {1}), packed(kRows, {1000, 1}), packed(kRows, {100'000, 10}),
        drawn_packing(random, kRows, 200, 1.5), drawn_packing(random, kRows, 50'000, 1.5)}) {
    EXPECT_LE(sharded(document_start, 64).most_by_mean(document_start), 1.01);
  }
}

TEST(RowShards, of_one_rank_are_all_rows) {
  EXPECT_THAT(sharded({0, 0, 2, 2, 2}, 1).rows, ElementsAre(0, 1, 2, 3, 4));
}

TEST(RowShards, refuse_lengths_that_are_no_multiple) {
  Rows rows(12);
  EXPECT_THROW(shard_rows(rows, Rows(12), 4), Error);
  EXPECT_THROW(shard_rows(rows, Rows(24), 3), Error);
  EXPECT_THROW(shard_rows({}, {}, 2), Error);
  EXPECT_NO_THROW(shard_rows(rows, Rows(12), 3));
}

}  // namespace
}  // namespace trireme
