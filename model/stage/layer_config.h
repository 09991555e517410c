#pragma once
#include <cstdint>
#include <vector>

#include "model/stage/model_config.h"

namespace trireme {

// What differs between the layers of a model.
struct LayerConfig {
  std::int64_t window = 0;  // tokens that a query sees, itself included; 0: all before it
  int rope = 0;             // which of rope_configs(); -1: no rotary positions
  bool has_experts = false;
  bool operator==(const LayerConfig&) const = default;
};

// Whether a layer, counted from 0, has experts.
bool has_experts(const ModelConfig& config, std::int64_t layer);
// How many layers have experts.
std::int64_t layers_with_experts(const ModelConfig& config);

// One entry a layer.
std::vector<LayerConfig> layer_configs(const ModelConfig& config);

// Rotary frequencies of a kind of layer.
struct RopeConfig {
  double theta = 10000;
  RopeScaling scaling = {};
  bool operator==(const RopeConfig&) const = default;
};
// Without duplicates; empty with learned positions.
std::vector<RopeConfig> rope_configs(const ModelConfig& config);

// The model with lists by layer in place of the family's patterns; without lists that say nothing.
ModelConfig with_layer_lists(ModelConfig config);

// The model with `count` layers, all as layer `layer` of this one.
ModelConfig with_equal_layers(ModelConfig config, std::int64_t layer, std::int64_t count);

}  // namespace trireme
