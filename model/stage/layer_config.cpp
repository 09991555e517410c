#include "model/stage/layer_config.h"

#include <algorithm>

#include "model/base/error.h"
#include "model/stage/model_family.h"

namespace trireme {
namespace {

// Of layers with and without a window.
RopeConfig rope_of(const ModelConfig& c, bool has_window) {
  const ModelFamily& family = find_family(c.model_type);
  if (!has_window || !family.rope_scaling_of_full_attention_only) {
    return {c.rope_theta, c.rope_scaling};
  }
  return {c.rope_local_base_freq > 0 ? c.rope_local_base_freq : c.rope_theta, {}};
}

LayerType layer_type(bool has_window) {
  return has_window ? LayerType::kSlidingAttention : LayerType::kFullAttention;
}

bool has_window(const ModelConfig& c, std::int64_t layer) {
  if (c.sliding_window == 0) return false;
  if (!c.layer_types.empty()) return c.layer_types[layer] == LayerType::kSlidingAttention;
  const std::int64_t every = find_family(c.model_type).full_attention_every;
  return every == 0 || (layer + 1) % every != 0;
}

bool has_rope(const ModelConfig& c, std::int64_t layer) {
  if (c.position != PositionKind::kRotary) return false;
  if (!c.no_rope_layers.empty()) return c.no_rope_layers[layer] != 0;
  const std::int64_t every = find_family(c.model_type).no_rope_every;
  return every == 0 || (layer + 1) % every != 0;
}

}  // namespace

bool has_experts(const ModelConfig& c, std::int64_t layer) {
  const std::vector<std::int64_t>& dense = c.mlp_only_layers;
  return c.num_experts > 0 && layer >= c.first_k_dense_replace &&
         (layer + 1) % c.decoder_sparse_step == 0 &&
         std::find(dense.begin(), dense.end(), layer) == dense.end();
}

std::int64_t layers_with_experts(const ModelConfig& c) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) count += has_experts(c, i) ? 1 : 0;
  return count;
}

std::vector<RopeConfig> rope_configs(const ModelConfig& c) {
  if (c.position != PositionKind::kRotary) return {};
  std::vector<RopeConfig> ropes{rope_of(c, /*has_window=*/false)};
  const RopeConfig local = rope_of(c, /*has_window=*/true);
  if (c.sliding_window > 0 && local != ropes.front()) ropes.push_back(local);
  return ropes;
}

std::vector<LayerConfig> layer_configs(const ModelConfig& c) {
  const auto count = static_cast<std::size_t>(c.num_hidden_layers);
  require(c.layer_types.empty() || c.layer_types.size() == count, "layer_types has ",
          c.layer_types.size(), " entries for ", count, " layers");
  require(c.no_rope_layers.empty() || c.no_rope_layers.size() == count, "no_rope_layers has ",
          c.no_rope_layers.size(), " entries for ", count, " layers");
  const std::vector<RopeConfig> ropes = rope_configs(c);
  std::vector<LayerConfig> layers(count);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const bool windowed = has_window(c, i);
    layers[i].window = windowed ? c.sliding_window : 0;
    const auto rope = std::find(ropes.begin(), ropes.end(), rope_of(c, windowed));
    layers[i].rope = has_rope(c, i) ? static_cast<int>(rope - ropes.begin()) : -1;
    layers[i].has_experts = has_experts(c, i);
  }
  return layers;
}

ModelConfig with_layer_lists(ModelConfig config) {
  const ModelConfig& c = config;
  std::vector<LayerType> types;
  std::vector<std::int64_t> ropes;
  bool any_window = false, all_rope = true;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const bool windowed = has_window(c, i), rotary = has_rope(c, i);
    types.push_back(layer_type(windowed));
    ropes.push_back(rotary ? 1 : 0);
    any_window |= windowed;
    all_rope &= rotary;
  }
  if (!any_window) types.clear();
  const bool family_has_all = find_family(c.model_type).no_rope_every == 0;
  if ((all_rope && family_has_all) || c.position != PositionKind::kRotary) ropes.clear();
  config.layer_types = std::move(types);
  config.no_rope_layers = std::move(ropes);
  if (!any_window) config.sliding_window = 0;
  return config;
}

ModelConfig with_equal_layers(ModelConfig config, std::int64_t layer, std::int64_t count) {
  const bool windowed = has_window(config, layer), rotary = has_rope(config, layer);
  if (!has_experts(config, layer)) config.num_experts = 0;
  config.decoder_sparse_step = 1;
  config.mlp_only_layers.clear();
  config.first_k_dense_replace = 0;
  config.num_hidden_layers = count;
  config.layer_types.assign(count, layer_type(windowed));
  config.no_rope_layers.assign(count, rotary ? 1 : 0);
  return config;
}

}  // namespace trireme
