#include "model/stage/model_config.h"

#include <cmath>

#include "model/stage/layer_config.h"

namespace trireme {
namespace {

std::int64_t norm_parameters(const ModelConfig& c, std::int64_t width) {
  return c.norm == NormKind::kLayerNorm ? 2 * width : width;
}

std::int64_t attention_parameters(const ModelConfig& c) {
  const std::int64_t queries = c.num_attention_heads * c.head_dim;
  const std::int64_t keys_and_values = 2 * c.num_key_value_heads * c.head_dim;
  std::int64_t count = c.hidden_size * (queries + keys_and_values) + queries * c.hidden_size;
  if (c.attention_bias) count += queries + keys_and_values;
  if (c.attention_output_bias) count += c.hidden_size;
  if (c.attention_sinks) count += c.num_attention_heads;
  if (c.qk_norm) count += c.qk_norm_by_head ? 2 * c.head_dim : queries + keys_and_values / 2;
  return count;
}

// Of a layer with `experts` of its experts.
std::int64_t expert_parameters(const ModelConfig& c, std::int64_t experts) {
  const std::int64_t mlps = experts + c.n_shared_experts;
  std::int64_t count = c.hidden_size * (c.num_experts + mlps * 3 * c.moe_intermediate_size);
  if (c.correction_bias) count += c.num_experts;
  if (c.expert_bias) {
    count += c.num_experts + experts * (2 * c.moe_intermediate_size + c.hidden_size);
  }
  return count;
}

std::int64_t mlp_parameters(const ModelConfig& c) {
  const std::int64_t up_projections = c.gated_mlp ? 2 : 1;
  std::int64_t count = (up_projections + 1) * c.hidden_size * c.intermediate_size;
  if (c.mlp_bias) count += up_projections * c.intermediate_size + c.hidden_size;
  return count;
}

// With so many of each layer's experts.
std::int64_t count_parameters(const ModelConfig& config, std::int64_t experts) {
  const std::int64_t embedding = config.vocab_size * config.hidden_size;
  std::int64_t count = embedding;
  if (config.position == PositionKind::kLearned) {
    count += config.max_position_embeddings * config.hidden_size;
  }
  const int norms = config.norm_placement == NormPlacement::kSandwich ? 4 : 2;
  count += config.num_hidden_layers *
           (norms * norm_parameters(config, config.hidden_size) + attention_parameters(config));
  for (const LayerConfig& layer : layer_configs(config)) {
    count += layer.has_experts ? expert_parameters(config, experts) : mlp_parameters(config);
  }
  count += norm_parameters(config, config.hidden_size);
  if (!config.tie_word_embeddings) count += embedding;
  return count;
}

}  // namespace

std::int64_t ModelConfig::rotary_dim() const {
  return static_cast<std::int64_t>(static_cast<double>(head_dim) * partial_rotary_factor);
}

double ModelConfig::attention_scale() const {
  if (attention_multiplier > 0) return attention_multiplier;
  const double width =
      query_pre_attn_scalar > 0 ? query_pre_attn_scalar : static_cast<double>(head_dim);
  return 1 / std::sqrt(width);
}

std::int64_t parameter_count(const ModelConfig& config) {
  return count_parameters(config, config.num_experts);
}

std::int64_t active_parameter_count(const ModelConfig& config) {
  return count_parameters(config, config.num_experts_per_tok);
}

std::int64_t expert_parameter_count(const ModelConfig& config) {
  return parameter_count(config) - count_parameters(config, 0);
}

}  // namespace trireme
