#include "model/stage/model_config.h"

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
  if (c.qk_norm) count += 2 * c.head_dim;
  return count;
}

std::int64_t mlp_parameters(const ModelConfig& c) {
  const std::int64_t up_projections = c.activation == ActivationKind::kSwiGlu ? 2 : 1;
  std::int64_t count = (up_projections + 1) * c.hidden_size * c.intermediate_size;
  if (c.mlp_bias) count += up_projections * c.intermediate_size + c.hidden_size;
  return count;
}

}  // namespace

std::int64_t parameter_count(const ModelConfig& config) {
  const std::int64_t embedding = config.vocab_size * config.hidden_size;
  std::int64_t count = embedding;
  if (config.position == PositionKind::kLearned) {
    count += config.max_position_embeddings * config.hidden_size;
  }
  count += config.num_hidden_layers * (2 * norm_parameters(config, config.hidden_size) +
                                       attention_parameters(config) + mlp_parameters(config));
  count += norm_parameters(config, config.hidden_size);
  if (!config.tie_word_embeddings) count += embedding;
  return count;
}

}  // namespace trireme
