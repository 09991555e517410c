#include "parallel/optimizer/optimizer.h"

#include <array>
#include <utility>

#include "parallel/optimizer/optimizers.h"

namespace trireme {
namespace {

using Make = std::unique_ptr<Optimizer> (*)(const OptimizerOptions&, UpdateRanks);
constexpr std::array<std::pair<const char*, Make>, 6> kRules{{{"AdamW", make_adamw},
                                                              {"SGD", make_sgd},
                                                              {"Lion", make_lion},
                                                              {"LAMB", make_lamb},
                                                              {"LARS", make_lars},
                                                              {"Muon", make_muon}}};

}  // namespace

std::vector<std::string> update_rule_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : kRules) names.emplace_back(name);
  return names;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, UpdateRanks ranks) {
  for (const auto& [name, make] : kRules) {
    if (options.name == name) return make(options, ranks);
  }
  throw ConfigError(say("unknown optimizer ", options.name));
}

}  // namespace trireme
