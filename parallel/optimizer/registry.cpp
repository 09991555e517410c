#include "parallel/optimizer/registry.h"

#include <algorithm>

#include "parallel/optimizer/optimizer.h"

namespace trireme {

// Each is defined in its own source.
NamedOptimizer adamw_optimizer();
NamedOptimizer sgd_optimizer();
NamedOptimizer lion_optimizer();
NamedOptimizer lamb_optimizer();
NamedOptimizer lars_optimizer();
NamedOptimizer muon_optimizer();

std::span<const NamedOptimizer> named_optimizers() {
  static const std::vector<NamedOptimizer> kAll{adamw_optimizer(), sgd_optimizer(),
                                                lion_optimizer(),  lamb_optimizer(),
                                                lars_optimizer(),  muon_optimizer()};
  return kAll;
}

bool NamedOptimizer::does_read(std::string_view member) const {
  return std::find(reads.begin(), reads.end(), member) != reads.end();
}

const NamedOptimizer& find_optimizer(std::string_view name) {
  std::string known;
  for (const NamedOptimizer& named : named_optimizers()) {
    if (name == named.name) return named;
    known += say(known.empty() ? "" : ", ", named.name);
  }
  throw ConfigError(say("unknown optimizer ", name, ": use one of ", known));
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, UpdateRanks ranks) {
  return find_optimizer(options.name).make(options, ranks);
}

}  // namespace trireme
