#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/stage/model_config.h"

namespace trireme {

// Presets with the published sizes, smallest first within a family.
std::vector<std::string> flavor_names();
std::optional<ModelConfig> find_flavor(std::string_view name);

}  // namespace trireme
