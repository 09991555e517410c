#include "parallel/context/context_cost.h"

#include <algorithm>

namespace trireme {

ops::Heads heads_of_rank(const ops::Heads& all, std::int64_t tensor) {
  return {all.heads / tensor, std::max<std::int64_t>(all.kv_heads / tensor, 1), all.width};
}

std::vector<std::int64_t> ranks_of_heads(const ops::Heads& heads) {
  std::vector<std::int64_t> possible;
  for (std::int64_t ranks = 1; ranks <= heads.heads; ++ranks) {
    const bool divides_keys = heads.kv_heads % ranks == 0 || ranks % heads.kv_heads == 0;
    if (heads.heads % ranks == 0 && divides_keys) possible.push_back(ranks);
  }
  return possible;
}

double received_per_token(const ContextChoice& choice, const ops::Heads& heads,
                          std::int64_t ranks) {
  const std::int64_t exchanging = choice.ulysses, groups = ranks / exchanging;
  const auto width = static_cast<double>(heads.width), of_heads = static_cast<double>(exchanging);
  // Of all of a token's heads; keys count as often as an exchange copies them.
  const double queries = static_cast<double>(heads.heads) * width;
  const double keys = 2 * static_cast<double>(std::max(heads.kv_heads, exchanging)) * width;
  // Queries, keys and values, and the output; then these, its gradient and theirs.
  const double forward = 2 * queries + keys, backward = 4 * queries + 2 * keys;
  const double exchanged = (of_heads - 1) / of_heads * (forward + backward);
  // Keys and values twice and their gradients once, of every other group.
  return exchanged + static_cast<double>(groups - 1) * 3 * keys;
}

ContextChoice default_choice(const ops::Heads& heads, std::int64_t ranks) {
  if (ranks > 1 && heads.kv_heads % ranks == 0) return {ContextMethod::kUlysses, ranks};
  ContextChoice best;
  for (const std::int64_t exchanging : ranks_of_heads(heads)) {
    if (ranks % exchanging != 0) continue;
    const bool is_all = exchanging == ranks;
    const ContextChoice choice{is_all ? ContextMethod::kUlysses : ContextMethod::kAllGather,
                               exchanging};
    if (received_per_token(choice, heads, ranks) < received_per_token(best, heads, ranks)) {
      best = choice;
    }
  }
  return best;
}

}  // namespace trireme
