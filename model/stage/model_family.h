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
  // With a sliding window: one layer of so many, the last, has none; 0: all layers have it.
  std::int64_t full_attention_every = 0;
  std::int64_t no_rope_every = 0;  // one layer of so many, the last, has no positions; 0: none
  // Layers with a window have rope_local_base_freq and no rope_scaling.
  bool rope_scaling_of_full_attention_only = false;
};
std::span<const ModelFamily> model_families();
// Throws Error for an unknown name.
const ModelFamily& find_family(std::string_view model_type);

// Names of the families.
std::vector<std::string> model_types();

}  // namespace trireme
