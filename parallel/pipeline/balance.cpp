#include "parallel/pipeline/balance.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "model/base/error.h"

namespace trireme {
namespace {

// Cost of stages made of consecutive blocks.
class Costs {
 public:
  Costs(const LayerCosts& costs, int stages) : costs_(costs), stages_(stages), sums_{0} {
    for (const double cost : costs.blocks) sums_.push_back(sums_.back() + cost);
  }
  // Cost of `stage` with blocks [first, end).
  double of(int stage, std::size_t first, std::size_t end) const {
    double cost = sums_[end] - sums_[first];
    if (stage == 0) cost += costs_.embedding;
    if (stage == stages_ - 1) cost += costs_.head;
    return cost;
  }

 private:
  const LayerCosts& costs_;
  int stages_;
  std::vector<double> sums_;  // prefix sums over blocks
};

struct Best {
  double value = 0;
  std::vector<std::int64_t> blocks;  // per stage
};

// The assignment that minimizes the final value of value = step(value, cost of the next stage),
// from 0 along the stages. `step` increases with its first argument.
template <class Step>
Best best_division(const Costs& costs, std::size_t blocks, int stages, const Step& step) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto depth = static_cast<std::size_t>(stages);
  // By number of stages, then by number of blocks assigned to them.
  std::vector<std::vector<double>> least(depth + 1, std::vector<double>(blocks + 1, kNever));
  std::vector<std::vector<std::size_t>> first(depth + 1, std::vector<std::size_t>(blocks + 1));
  least[0][0] = 0;
  for (std::size_t s = 1; s <= depth; ++s) {
    for (std::size_t end = s; end <= blocks; ++end) {
      for (std::size_t begin = s - 1; begin < end; ++begin) {
        if (least[s - 1][begin] == kNever) continue;
        const double value =
            step(least[s - 1][begin], costs.of(static_cast<int>(s) - 1, begin, end));
        if (value >= least[s][end]) continue;
        least[s][end] = value;
        first[s][end] = begin;
      }
    }
  }
  Best best{least[depth][blocks], std::vector<std::int64_t>(depth)};
  for (std::size_t s = depth, end = blocks; s > 0; end = first[s--][end]) {
    best.blocks[s - 1] = static_cast<std::int64_t>(end - first[s][end]);
  }
  return best;
}

}  // namespace

std::vector<std::int64_t> balance_blocks(const LayerCosts& costs, int stages) {
  const std::size_t blocks = costs.blocks.size();
  if (stages < 1 || blocks < static_cast<std::size_t>(stages)) {
    throw ConfigError(
        say(blocks, " layers cannot be distributed over ", stages,
            " pipeline stages (parallelism.pipeline x parallelism.virtual_stages): use at most ",
            blocks));
  }
  const Costs of_stages(costs, stages);
  const auto slowest = [](double so_far, double cost) { return std::max(so_far, cost); };
  const double limit = best_division(of_stages, blocks, stages, slowest).value;
  const auto squares = [&](double so_far, double cost) {
    return cost > limit ? std::numeric_limits<double>::infinity() : so_far + cost * cost;
  };
  return best_division(of_stages, blocks, stages, squares).blocks;
}

std::vector<std::int64_t> check_blocks_per_stage(const std::vector<std::int64_t>& list,
                                                 std::int64_t blocks, int stages) {
  constexpr const char* kKey = "parallelism.layers_per_stage";
  if (list.size() != static_cast<std::size_t>(stages)) {
    throw ConfigError(say(kKey, " has ", list.size(), " numbers for ", stages,
                          " stages (parallelism.pipeline x parallelism.virtual_stages)"));
  }
  for (const std::int64_t n : list) {
    if (n < 1) throw ConfigError(say(kKey, " has ", n, ": every stage needs at least 1 layer"));
  }
  const std::int64_t sum = std::accumulate(list.begin(), list.end(), std::int64_t{0});
  if (sum != blocks) {
    throw ConfigError(say(kKey, " adds up to ", sum, ", but model.num_hidden_layers is ", blocks));
  }
  return list;
}

std::vector<double> stage_costs(const LayerCosts& costs, const std::vector<std::int64_t>& blocks) {
  const Costs of_stages(costs, static_cast<int>(blocks.size()));
  std::vector<double> sums;
  std::size_t first = 0;
  for (const std::int64_t n : blocks) {
    const std::size_t end = first + static_cast<std::size_t>(n);
    sums.push_back(of_stages.of(static_cast<int>(sums.size()), first, end));
    first = end;
  }
  return sums;
}

}  // namespace trireme
