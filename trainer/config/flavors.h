#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/stage/model_config.h"

namespace trireme {

// Supported model families.
std::vector<std::string> model_types();

// Size-independent defaults of a family: norm, positions, activation, biases, epsilons. Throws
// Error unless `model_type` is one of model_types().
ModelConfig family_defaults(std::string_view model_type);

// Presets with the published sizes, smallest first within a family.
std::vector<std::string> flavor_names();
std::optional<ModelConfig> find_flavor(std::string_view name);

}  // namespace trireme
