#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/stage/model_config.h"

namespace trireme {

// Models that differ in size only.
struct ModelFamily {
  ModelConfig defaults;               // independent of size; model_type is the family's name
  std::int64_t mlp_ratio = 0;         // default intermediate_size over hidden_size; 0: none
  bool attention_output_bias = true;  // attention_bias is also that of the output projection
};
std::span<const ModelFamily> model_families();
// Throws Error for an unknown name.
const ModelFamily& find_family(std::string_view model_type);

// Names of the families.
std::vector<std::string> model_types();

}  // namespace trireme
