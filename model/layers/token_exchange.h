#pragma once
#include <cstdint>
#include <vector>

#include "model/ops/expert_rows.h"
#include "model/params/cut.h"
#include "model/tensor/arena.h"

namespace trireme {

// Rows that a rank's experts compute at once: those of consecutive ranks, each sorted by expert.
struct ExpertRound {
  int first_rank = 0, ranks = 0;
  std::int64_t rows = 0;
  Tensor starts = {};  // [ranks * own experts + 1] I32: the groups' rows, by rank and then expert
  // Of an exchange: rows of each rank that are received in order of the ranks, and those sent,
  // which begin at `sent_from` among this rank's rows. Empty: nothing is exchanged.
  std::vector<std::int64_t> received = {}, sent = {}, sent_from = {};
};

// Brings the rows of tokens to the ranks that have their experts, and the results back (expert
// parallelism; Lepikhin et al. 2020, "GShard"). No row is dropped: what exceeds a rank's planned
// capacity follows in further rounds of the same buffers.
//
// This base class is a single rank with all experts: one round, no communication.
class TokenExchange {
 public:
  TokenExchange() = default;
  TokenExchange(const TokenExchange&) = delete;
  TokenExchange& operator=(const TokenExchange&) = delete;
  virtual ~TokenExchange() = default;

  // This rank's share of the experts.
  virtual Slice slice() const { return {}; }
  bool is_alone() const { return slice().count == 1; }
  // The exchange of a single rank.
  static TokenExchange& alone() {
    static TokenExchange exchange;
    return exchange;
  }

  // Most rows of a round, if each rank has `pairs` (ExpertRows).
  virtual std::int64_t capacity(std::int64_t pairs) const { return pairs; }

  // The rounds of a micro-batch, at least one and the same number on all ranks, from this rank's
  // rows and `counts` [1, experts] F32 of them by expert. Tensors are in ctx.saved.
  virtual void plan(ExecContext&, std::vector<ExpertRound>& rounds, Tensor /*counts*/,
                    const ops::ExpertRows& rows) {
    rounds.assign(1, {.ranks = 1, .rows = rows.pairs.count(), .starts = rows.starts});
  }
  // received [round.rows, width] = rows of all ranks, from `rows` [pairs, width] sorted by expert.
  virtual void dispatch(Stream&, Tensor /*received*/, Tensor /*rows*/, const ExpertRound&) {}
  // The reverse: the rows of this round in `rows` [pairs, width] = results of the ranks' experts.
  virtual void send_back(Stream&, Tensor /*rows*/, Tensor /*results*/, const ExpertRound&) {}
};

}  // namespace trireme
