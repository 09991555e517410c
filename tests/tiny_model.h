#pragma once
#include <cstdint>
#include <string_view>

#include "model/stage/layer_config.h"
#include "model/stage/model_family.h"

namespace trireme::test {

// GPT-2 has as many key-value heads as query heads.
struct TinySize {
  std::int64_t vocab = 61, hidden = 32, mlp = 48, layers = 3;
  std::int64_t heads = 4, kv_heads = 2, head_dim = 8, positions = 20;
};

// A small model of a family.
inline ModelConfig tiny_model(std::string_view family, const TinySize& size = {}) {
  ModelConfig m = find_family(family).defaults;
  m.norm_eps = ModelConfig().norm_eps;  // the same numbers for all families
  m.rope_theta = ModelConfig().rope_theta;
  m.vocab_size = size.vocab;
  m.hidden_size = size.hidden;
  m.intermediate_size = size.mlp;
  m.num_hidden_layers = size.layers;
  m.num_attention_heads = size.heads;
  m.num_key_value_heads = family == "gpt2" ? size.heads : size.kv_heads;
  m.head_dim = size.head_dim;
  m.max_position_embeddings = size.positions;
  if (m.num_experts > 0) {
    m.num_experts = 5;
    m.num_experts_per_tok = 2;
    m.moe_intermediate_size = size.mlp / 2;
    m.router_aux_loss_coef = 0.1;
    m.router_z_loss_coef = 0.05;
    if (family == "gpt_oss") {
      m.num_experts_per_tok = 4;  // all experts have tokens, whatever the bias of the router
      m.swiglu_limit = 0.8;       // clamps some
    }
    if (family == "qwen3_moe") {
      m.mlp_only_layers = {1};
    } else if (family == "glm4_moe") {
      m.num_experts = 6;
      m.n_group = 3;
      m.topk_group = 2;
      m.n_shared_experts = 2;
      m.routed_scaling_factor = 1.5;
    } else {
      m.intermediate_size = 0;
    }
  }
  if (family == "granite") {
    m.embedding_multiplier = 3;
    m.attention_multiplier = 0.3;
    m.residual_multiplier = 0.5;
    m.logits_scaling = 2.5;
  }
  if (m.attn_logit_softcapping > 0) m.attn_logit_softcapping = 3;
  if (m.final_logit_softcapping > 0) m.final_logit_softcapping = 2;
  if (m.query_pre_attn_scalar > 0) m.query_pre_attn_scalar = 6;
  if (m.sliding_window > 0) m.sliding_window = 3;
  // Layers with and without a window also in the smallest models.
  for (std::int64_t i = 0; m.sliding_window > 0 && i < size.layers; ++i) {
    m.layer_types.push_back(i % 2 == 0 ? LayerType::kSlidingAttention : LayerType::kFullAttention);
  }
  return m;
}

// Two blocks small enough for central differences.
inline constexpr TinySize kTwoBlocks{.vocab = 9,
                                     .hidden = 8,
                                     .mlp = 10,
                                     .layers = 2,
                                     .heads = 2,
                                     .kv_heads = 1,
                                     .head_dim = 4,
                                     .positions = 5};

}  // namespace trireme::test
