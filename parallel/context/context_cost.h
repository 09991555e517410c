#pragma once
#include <cstdint>
#include <vector>

#include "model/ops/attention.h"
#include "parallel/context/context_method.h"

namespace trireme {

// How context ranks attend to each other's tokens: `ulysses` adjacent ranks exchange tokens for
// heads, and `method` is used between such groups.
struct ContextChoice {
  ContextMethod method = ContextMethod::kAllGather;
  std::int64_t ulysses = 1;
};

// Those of one of `tensor` ranks that divide the heads: at least one key-value head.
ops::Heads heads_of_rank(const ops::Heads& all, std::int64_t tensor);

// The numbers of ranks, ascending, that can divide a tensor rank's heads among themselves: a rank
// has some key-value heads, or some of the query heads of one.
std::vector<std::int64_t> ranks_of_heads(const ops::Heads& heads);

// Elements that a rank receives in a layer's forward and backward for each token of its shard. A
// ring receives as much as all_gather where every rank reads the keys of all others.
double received_per_token(const ContextChoice& choice, const ops::Heads& heads, std::int64_t ranks);

// One exchange among all ranks where each then has key-value heads of its own, because kernels are
// fastest on whole sequences. Otherwise the choice without a ring that receives least; of equals
// the one with fewer ranks per exchange.
ContextChoice default_choice(const ops::Heads& heads, std::int64_t ranks);

}  // namespace trireme
