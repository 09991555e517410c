#pragma once
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "parallel/optimizer/optimizer_options.h"

namespace trireme {

class Optimizer;
struct UpdateRanks;

// An optimizer that can be named in the config, and what config and verify need to know of it.
struct NamedOptimizer {
  const char* name;
  std::unique_ptr<Optimizer> (*make)(const OptimizerOptions&, UpdateRanks);
  // Members of OptimizerOptions that only some optimizers read, of those that this one reads.
  std::vector<std::string_view> reads;
  OptimizerOptions defaults = {};  // recommended by its authors
  bool spans_ranks = false;        // an update needs all shards of a parameter
  double rounding = 1e-5;  // relative error of an update, from float32 sums in another order

  bool does_read(std::string_view member) const;
};
std::span<const NamedOptimizer> named_optimizers();
// Throws ConfigError for an unknown name.
const NamedOptimizer& find_optimizer(std::string_view name);

// The groups outlive the optimizer. Throws ConfigError for an unknown name.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, UpdateRanks ranks);

}  // namespace trireme
