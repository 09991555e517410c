#include "parallel/expert/expert_rounds.h"

#include <algorithm>
#include <cmath>

#include "model/base/error.h"

namespace trireme {
namespace {

// The round in which rank `to` receives the rows of each rank.
std::vector<int> rounds_at(const ExpertCounts& counts, int to, std::int64_t capacity) {
  std::vector<int> rounds;
  std::int64_t filled = 0;
  int round = 0;
  for (int from = 0; from < counts.ranks; ++from) {
    const std::int64_t rows = counts.sent(from, to);
    require(rows <= capacity, "rank ", from, " sends ", rows, " rows to a rank that takes ",
            capacity, " at once");
    if (filled + rows > capacity) {
      ++round;
      filled = 0;
    }
    filled += rows;
    rounds.push_back(round);
  }
  return rounds;
}

}  // namespace

std::int64_t ExpertBuffer::most_from_each() const {
  return tokens * std::min(experts / ranks, top_k);
}

std::int64_t ExpertBuffer::capacity() const {
  const double planned = std::ceil(factor * static_cast<double>(pairs()));
  return std::min(most(), static_cast<std::int64_t>(planned));
}

std::int64_t ExpertBuffer::most_rounds() const {
  const std::int64_t at_once = capacity() / std::max<std::int64_t>(most_from_each(), 1);
  return (ranks + at_once - 1) / std::max<std::int64_t>(at_once, 1);
}

std::int64_t ExpertCounts::sent(int from, int to) const {
  std::int64_t rows = 0;
  for (std::int64_t e = to * own_experts(); e < (to + 1) * own_experts(); ++e) rows += of(from, e);
  return rows;
}

std::vector<ExpertRound> expert_rounds(const ExpertCounts& counts, int own, std::int64_t capacity,
                                       std::vector<std::int32_t>& starts) {
  std::vector<std::vector<int>> round_of;  // by receiver, then sender
  int rounds = 0;
  for (int to = 0; to < counts.ranks; ++to) {
    round_of.push_back(rounds_at(counts, to, capacity));
    rounds = std::max(rounds, round_of.back().back() + 1);
  }
  std::vector<ExpertRound> all(static_cast<std::size_t>(rounds));
  for (int r = 0; r < rounds; ++r) {
    ExpertRound& round = all[static_cast<std::size_t>(r)];
    std::int64_t from_own = 0;
    starts.push_back(0);
    for (int peer = 0; peer < counts.ranks; ++peer) {
      const bool arrives = round_of[own][peer] == r, leaves = round_of[peer][own] == r;
      if (arrives && round.ranks++ == 0) round.first_rank = peer;
      for (std::int64_t e = 0; e < counts.own_experts() && arrives; ++e) {
        round.rows += counts.of(peer, own * counts.own_experts() + e);
        starts.push_back(static_cast<std::int32_t>(round.rows));
      }
      const std::int64_t to_peer = counts.sent(own, peer);
      round.received.push_back(arrives ? counts.sent(peer, own) : 0);
      round.sent.push_back(leaves ? to_peer : 0);
      round.sent_from.push_back(from_own);
      from_own += to_peer;
    }
  }
  return all;
}

}  // namespace trireme
