#include "model/stage/model_family.h"

#include "model/base/error.h"

namespace trireme {

std::span<const ModelFamily> model_families() {
  static const std::vector<ModelFamily> kAll{
      {.defaults = {.model_type = "gpt2",
                    .norm = NormKind::kLayerNorm,
                    .position = PositionKind::kLearned,
                    .activation = Activation::kGeluTanh,
                    .gated_mlp = false,
                    .max_position_embeddings = 1024,
                    .attention_bias = true,
                    .attention_output_bias = true,
                    .mlp_bias = true,
                    .tie_word_embeddings = true},
       .mlp_ratio = 4},
      {.defaults = {.model_type = "llama"}},
      {.defaults = {.model_type = "mistral", .rope_theta = 1e6}},
      // Hugging Face's Qwen2 has biases only on query, key and value.
      {.defaults =
           {.model_type = "qwen2", .norm_eps = 1e-6, .rope_theta = 1e6, .attention_bias = true},
       .attention_output_bias = false},
      {.defaults = {.model_type = "qwen3",
                    .head_dim = 128,
                    .norm_eps = 1e-6,
                    .rope_theta = 1e6,
                    .qk_norm = true}},
      {.defaults = {.model_type = "smollm3",
                    .norm_eps = 1e-6,
                    .rope_theta = 2e6,
                    .tie_word_embeddings = true},
       .no_rope_every = 4},
      {.defaults = {.model_type = "phi3"}},
      {.defaults = {.model_type = "granite", .attention_multiplier = 1}},
      // A norm of a branch's output makes the scale of its last projection meaningless.
      {.defaults = {.model_type = "olmo2",
                    .norm_placement = NormPlacement::kPost,
                    .norm_eps = 1e-6,
                    .rope_theta = 5e5,
                    .qk_norm = true,
                    .qk_norm_by_head = false,
                    .scale_residual_init = false}},
      {.defaults = {.model_type = "olmo3",
                    .norm_placement = NormPlacement::kPost,
                    .norm_eps = 1e-6,
                    .rope_theta = 5e5,
                    .sliding_window = 4096,
                    .qk_norm = true,
                    .qk_norm_by_head = false,
                    .scale_residual_init = false},
       .full_attention_every = 4,
       .rope_scaling_of_full_attention_only = true},
      {.defaults = {.model_type = "gemma2",
                    .norm_placement = NormPlacement::kSandwich,
                    .norm_gain_offset = 1,
                    .activation = Activation::kGeluTanh,
                    .head_dim = 256,
                    .norm_eps = 1e-6,
                    .sliding_window = 4096,
                    .query_pre_attn_scalar = 256,
                    .attn_logit_softcapping = 50,
                    .final_logit_softcapping = 30,
                    .scale_embedding = true,
                    .tie_word_embeddings = true,
                    .scale_residual_init = false},
       .full_attention_every = 2},
      {.defaults = {.model_type = "gemma3_text",
                    .norm_placement = NormPlacement::kSandwich,
                    .norm_gain_offset = 1,
                    .activation = Activation::kGeluTanh,
                    .head_dim = 256,
                    .norm_eps = 1e-6,
                    .rope_theta = 1e6,
                    .rope_local_base_freq = 1e4,
                    .sliding_window = 1024,
                    .qk_norm = true,
                    .query_pre_attn_scalar = 256,
                    .scale_embedding = true,
                    .tie_word_embeddings = true,
                    .scale_residual_init = false},
       .full_attention_every = 6,
       .rope_scaling_of_full_attention_only = true},
      // Its biases are only on query, key and value.
      {.defaults = {.model_type = "glm4",
                    .norm_placement = NormPlacement::kSandwich,
                    .head_dim = 128,
                    .norm_eps = 1.5625e-7,
                    .partial_rotary_factor = 0.5,
                    .rope_interleaved = true,
                    .attention_bias = true,
                    .scale_residual_init = false},
       .attention_output_bias = false},
      {.defaults = {.model_type = "mixtral",
                    .num_experts = 8,
                    .num_experts_per_tok = 2,
                    .norm_topk_prob = true,
                    .router_aux_loss_coef = 0.001,
                    .rope_theta = 1e6}},
      {.defaults = {.model_type = "olmoe",
                    .num_experts = 64,
                    .num_experts_per_tok = 8,
                    .router_aux_loss_coef = 0.01,
                    .qk_norm = true,
                    .qk_norm_by_head = false}},
      {.defaults = {.model_type = "qwen3_moe",
                    .head_dim = 128,
                    .num_experts = 128,
                    .num_experts_per_tok = 8,
                    .norm_topk_prob = true,
                    .router_aux_loss_coef = 0.001,
                    .norm_eps = 1e-6,
                    .rope_theta = 1e6,
                    .qk_norm = true}},
      // GLM-4.5, with the router of DeepSeek-V3. Its biases are only on query, key and value.
      {.defaults = {.model_type = "glm4_moe",
                    .head_dim = 128,
                    .num_experts = 128,
                    .num_experts_per_tok = 8,
                    .norm_topk_prob = true,
                    .first_k_dense_replace = 1,
                    .n_shared_experts = 1,
                    .scoring_func = "sigmoid",
                    .router_bias = true,
                    .router_bias_update_rate = 0.001,
                    .rope_theta = 1e6,
                    .partial_rotary_factor = 0.5,
                    .attention_bias = true},
       .attention_output_bias = false}};
  return kAll;
}

const ModelFamily& find_family(std::string_view model_type) {
  for (const ModelFamily& family : model_families()) {
    if (family.defaults.model_type == model_type) return family;
  }
  throw Error(say("unknown model_type ", model_type));
}

std::vector<std::string> model_types() {
  std::vector<std::string> names;
  for (const ModelFamily& family : model_families()) names.push_back(family.defaults.model_type);
  return names;
}

}  // namespace trireme
