#include "parallel/optimizer/optimizer.h"

#include <array>
#include <utility>

#include "parallel/optimizer/optimizers.h"

namespace trireme {
namespace {

using Make = std::unique_ptr<Optimizer> (*)(const OptimizerOptions&, UpdateRanks);
constexpr std::array<std::pair<const char*, Make>, 6> kOptimizers{{{"AdamW", make_adamw},
                                                                   {"SGD", make_sgd},
                                                                   {"Lion", make_lion},
                                                                   {"LAMB", make_lamb},
                                                                   {"LARS", make_lars},
                                                                   {"Muon", make_muon}}};

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : kOptimizers) names.emplace_back(name);
  return names;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, UpdateRanks ranks) {
  for (const auto& [name, make] : kOptimizers) {
    if (options.name == name) return make(options, ranks);
  }
  std::string known;
  for (const std::string& name : optimizer_names()) known += (known.empty() ? "" : ", ") + name;
  throw ConfigError(say("unknown optimizer ", options.name, ": use one of ", known));
}

}  // namespace trireme
