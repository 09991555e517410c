#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "model/layers/token_exchange.h"

namespace trireme {

// How often the tokens of each rank of an exchange choose each expert: [ranks, experts]. The ranks
// have equal, consecutive shares of the experts.
struct ExpertCounts {
  std::span<const float> counts;
  int ranks = 1;
  std::int64_t experts = 1;

  std::int64_t own_experts() const { return experts / ranks; }
  std::int64_t of(int rank, std::int64_t expert) const {
    return static_cast<std::int64_t>(counts[static_cast<std::size_t>(rank * experts + expert)]);
  }
  // Rows that rank `from` sends to rank `to`.
  std::int64_t sent(int from, int to) const;
};

// Rows of (token, choice) pairs in an exchange of experts whose ranks have `tokens` each.
struct ExpertBuffer {
  std::int64_t ranks = 1, experts = 1, top_k = 1, tokens = 0;
  double factor = 1;  // rows that a rank plans for, as a multiple of its equal share

  std::int64_t pairs() const { return tokens * top_k; }
  // Worst case, every token chooses as many experts of one rank as it can: rows from each rank, and
  // from all.
  std::int64_t most_from_each() const;
  std::int64_t most() const { return ranks * most_from_each(); }
  // Rows of a round, and rounds of the worst case.
  std::int64_t capacity() const;
  std::int64_t most_rounds() const;
};

// The rounds of rank `own`, without `starts`, which are appended to `starts`: for each round those
// of its groups, ranks * own experts + 1. A round has all rows of consecutive ranks, as many ranks
// as fit in `capacity` rows, which is at least what one rank sends: a rank's rows are never
// divided, so that gradients do not depend on the capacity. All ranks have as many rounds as the
// one that needs most.
std::vector<ExpertRound> expert_rounds(const ExpertCounts& counts, int own, std::int64_t capacity,
                                       std::vector<std::int32_t>& starts);

}  // namespace trireme
