#include "parallel/optimizer/registry.h"

#include <algorithm>

#include "parallel/optimizer/optimizers.h"

namespace trireme {

std::span<const NamedOptimizer> named_optimizers() {
  static const std::vector<NamedOptimizer> kAll{
      {.name = "AdamW", .make = make_adamw, .reads = {"beta1", "beta2", "eps"}},
      {.name = "SGD", .make = make_sgd, .reads = {"momentum", "nesterov"}},
      {.name = "Lion", .make = make_lion, .reads = {"beta1", "beta2"}, .defaults = {.beta2 = 0.99}},
      {.name = "LAMB",
       .make = make_lamb,
       .reads = {"beta1", "beta2", "eps"},
       .defaults = {.beta2 = 0.999, .eps = 1e-6}},
      {.name = "LARS", .make = make_lars, .reads = {"momentum", "trust_coefficient"}},
      {.name = "Muon",
       .make = make_muon,
       .reads = {"beta1", "beta2", "eps", "momentum", "nesterov", "ns_steps", "adjust_lr",
                 "adamw_lr"},
       .defaults = {.momentum = 0.95, .nesterov = true},
       .rounding = 1e-3}};  // amplified by the Newton-Schulz iteration
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
