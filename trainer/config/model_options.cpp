#include <algorithm>

#include "model/ops/routing.h"
#include "model/stage/layer_config.h"
#include "model/stage/model_family.h"
#include "trainer/config/flavors.h"
#include "trainer/config/option_table.h"

namespace trireme {
namespace {

bool is_rotary(const RunConfig& c) {
  return c.model.position == PositionKind::kRotary;
}
bool has_rms_norm(const RunConfig& c) {
  return c.model.norm == NormKind::kRmsNorm;
}
bool is_of(const RunConfig& c, std::initializer_list<std::string_view> families) {
  return std::find(families.begin(), families.end(), c.model.model_type) != families.end();
}
bool has_layer_norm(const RunConfig& c) {
  return c.model.norm == NormKind::kLayerNorm;
}

void add_model_shape(Options& to) {
  to.push_back(
      {.key = "model.vocab_size",
       .slot = TRIREME_MEMBER(model.vocab_size),
       .help = "vocabulary size (rows of the embedding matrix); every token id must be below it",
       .effect = Effect::kNumerics,
       .range = between(1, 2147483647),
       .default_text = "required"});
  to.push_back({.key = "model.hidden_size",
                .slot = TRIREME_MEMBER(model.hidden_size),
                .help = "width of the residual stream",
                .effect = Effect::kNumerics,
                .range = between(1, 1048576),
                .default_text = "required"});
  to.push_back({.key = "model.intermediate_size",
                .slot = TRIREME_MEMBER(model.intermediate_size),
                .help = "hidden size of the MLP; qwen3_moe and glm4_moe: of layers without experts",
                .effect = Effect::kNumerics,
                .range = between(1, 4194304),
                .default_text = "gpt2: 4 x hidden_size; else required",
                .applies = [](const RunConfig& c) {
                  return !is_of(c, {"mixtral", "olmoe", "gpt_oss"});
                }});
  to.push_back({.key = "model.num_hidden_layers",
                .slot = TRIREME_MEMBER(model.num_hidden_layers),
                .help = "number of transformer blocks",
                .effect = Effect::kNumerics,
                .range = between(1, 10000),
                .default_text = "required"});
  to.push_back({.key = "model.num_attention_heads",
                .slot = TRIREME_MEMBER(model.num_attention_heads),
                .help = "number of query heads",
                .effect = Effect::kNumerics,
                .range = between(1, 4096),
                .default_text = "required"});
  to.push_back(
      {.key = "model.num_key_value_heads",
       .slot = TRIREME_MEMBER(model.num_key_value_heads),
       .help =
           "number of key-value heads (grouped-query attention); must divide num_attention_heads",
       .effect = Effect::kNumerics,
       .range = between(1, 4096),
       .default_text = "num_attention_heads"});
  to.push_back({.key = "model.head_dim",
                .slot = TRIREME_MEMBER(model.head_dim),
                .help = "size of one attention head; must be even with RoPE",
                .effect = Effect::kNumerics,
                .range = between(1, 4096),
                .default_text = "gpt_oss: 64; qwen3, qwen3_moe, glm4 and glm4_moe: 128; gemma2 and "
                                "gemma3_text: 256; else hidden_size / num_attention_heads"});
  to.push_back(
      {.key = "model.max_position_embeddings",
       .slot = TRIREME_MEMBER(model.max_position_embeddings),
       .help = "longest sequence the model supports; a hard limit with learned position "
               "embeddings (gpt2)",
       .effect = Effect::kNumerics,
       .range = between(1, 16777216),
       .unit = "tokens",
       .default_text = "gpt2: 1024; else training.seq_len, or that of the step's data.stages"});
}

void add_model_parts(Options& to) {
  to.push_back({.key = "model.rms_norm_eps",
                .slot = TRIREME_MEMBER(model.norm_eps),
                .help = "epsilon of RMSNorm",
                .effect = Effect::kNumerics,
                .range = {.least = 0, .most = 1, .above = true},
                .applies = has_rms_norm});
  to.push_back({.key = "model.layer_norm_epsilon",
                .slot = TRIREME_MEMBER(model.norm_eps),
                .help = "epsilon of LayerNorm",
                .effect = Effect::kNumerics,
                .range = {.least = 0, .most = 1, .above = true},
                .default_text = "1e-5",
                .applies = has_layer_norm});
  to.push_back({.key = "model.hidden_act",
                .slot = TRIREME_MEMBER(model.activation),
                .help = "activation of the MLP: gelu (exact), gelu_new (tanh form), relu2 or silu; "
                        "gpt2 has two projections, the other families three (SwiGLU, GeGLU)",
                .effect = Effect::kNumerics,
                .allowed = {kActivationNames.begin(), kActivationNames.end()}});
  to.push_back({.key = "model.rope_theta",
                .slot = TRIREME_MEMBER(model.rope_theta),
                .help = "base of the RoPE frequencies",
                .effect = Effect::kNumerics,
                .range = {.least = 1, .most = 1e12, .above = true},
                .applies = is_rotary});
  to.push_back({.key = "model.rope_scaling",
                .slot = TRIREME_MEMBER(model.rope_scaling),
                .help =
                    "scaling of the RoPE frequencies: {rope_type = \"default\"} (none), linear "
                    "or dynamic {factor}, yarn {factor, original_max_position_embeddings, "
                    "beta_fast, beta_slow, truncate, attention_factor, mscale, mscale_all_dim}, "
                    "longrope {short_factor, long_factor, factor, attention_factor, "
                    "original_max_position_embeddings}, llama3 {factor, low_freq_factor, "
                    "high_freq_factor, original_max_position_embeddings}",
                .effect = Effect::kNumerics,
                .default_text = "{rope_type = \"default\"}",
                .applies = is_rotary});
  to.push_back({.key = "model.rope_local_base_freq",
                .slot = TRIREME_MEMBER(model.rope_local_base_freq),
                .help = "base of the RoPE frequencies in layers with a sliding window, which have "
                        "no rope_scaling; 0: rope_theta",
                .effect = Effect::kNumerics,
                .range = between(0, 1e12),
                .applies = [](const RunConfig& c) { return is_of(c, {"gemma3_text"}); }});
  to.push_back({.key = "model.partial_rotary_factor",
                .slot = TRIREME_MEMBER(model.partial_rotary_factor),
                .help = "fraction of each head that RoPE rotates",
                .effect = Effect::kNumerics,
                .range = {.least = 0, .most = 1, .above = true},
                .applies = is_rotary});
  to.push_back({.key = "model.no_rope_layers",
                .slot = TRIREME_MEMBER(model.no_rope_layers),
                .help = "by layer, 1: RoPE, 0: no positions (NoPE), as [1, 1, 1, 0]",
                .effect = Effect::kNumerics,
                .range = between(0, 1),
                .default_text = "smollm3: every fourth layer has none; else all have RoPE",
                .applies = is_rotary});
  to.push_back({.key = "model.sliding_window",
                .slot = TRIREME_MEMBER(model.sliding_window),
                .help = "tokens that a query of a sliding_attention layer sees, itself included; "
                        "0: no windows",
                .effect = Effect::kNumerics,
                .range = between(0, 16777216),
                .unit = "tokens",
                .applies = is_rotary});
  to.push_back({.key = "model.layer_types",
                .slot = TRIREME_MEMBER(model.layer_types),
                .help = "type of attention by layer",
                .effect = Effect::kNumerics,
                .allowed = {kLayerTypeNames.begin(), kLayerTypeNames.end()},
                .default_text =
                    "with a sliding_window: gemma2 and gpt_oss every second, olmo3 every fourth, "
                    "gemma3_text every sixth layer has full attention; else none",
                .applies = is_rotary});
  to.push_back({.key = "model.query_pre_attn_scalar",
                .slot = TRIREME_MEMBER(model.query_pre_attn_scalar),
                .help = "attention scores are divided by its square root; 0: head_dim",
                .effect = Effect::kNumerics,
                .range = between(0, 1e6),
                .applies = [](const RunConfig& c) {
                  return is_of(c, {"gemma2", "gemma3_text"});
                }});
  to.push_back({.key = "model.attn_logit_softcapping",
                .slot = TRIREME_MEMBER(model.attn_logit_softcapping),
                .help = "soft cap c of the attention scores, c tanh(score / c); 0: none",
                .effect = Effect::kNumerics,
                .range = between(0, 1e6),
                .applies = is_rotary});
  to.push_back({.key = "model.final_logit_softcapping",
                .slot = TRIREME_MEMBER(model.final_logit_softcapping),
                .help = "soft cap of the logits; 0: none",
                .effect = Effect::kNumerics,
                .range = between(0, 1e6)});
  const auto is_granite = [](const RunConfig& c) { return is_of(c, {"granite"}); };
  to.push_back({.key = "model.attention_multiplier",
                .slot = TRIREME_MEMBER(model.attention_multiplier),
                .help = "factor of the attention scores; 0: 1 / sqrt(head_dim)",
                .effect = Effect::kNumerics,
                .range = between(0, 1e6),
                .applies = is_granite});
  const Range positive{.least = 0, .most = 1e6, .above = true};
  to.push_back({.key = "model.embedding_multiplier",
                .slot = TRIREME_MEMBER(model.embedding_multiplier),
                .help = "factor of the token embeddings",
                .effect = Effect::kNumerics,
                .range = positive,
                .applies = is_granite});
  to.push_back({.key = "model.residual_multiplier",
                .slot = TRIREME_MEMBER(model.residual_multiplier),
                .help = "factor of what attention and MLP add to the residual stream",
                .effect = Effect::kNumerics,
                .range = positive,
                .applies = is_granite});
  to.push_back({.key = "model.logits_scaling",
                .slot = TRIREME_MEMBER(model.logits_scaling),
                .help = "divisor of the logits",
                .effect = Effect::kNumerics,
                .range = positive,
                .applies = is_granite});
  to.push_back({.key = "model.tie_word_embeddings",
                .slot = TRIREME_MEMBER(model.tie_word_embeddings),
                .help = "tie the weights of the embedding and the output head",
                .effect = Effect::kNumerics});
  to.push_back({.key = "model.attention_bias",
                .slot = TRIREME_MEMBER(model.attention_bias),
                .help = "bias on the query, key and value projections, and on the output "
                        "projection except for qwen2, glm4 and glm4_moe",
                .effect = Effect::kNumerics});
  to.push_back({.key = "model.mlp_bias",
                .slot = TRIREME_MEMBER(model.mlp_bias),
                .help = "bias on the MLP's projections",
                .effect = Effect::kNumerics});
  to.push_back({.key = "model.qk_norm",
                .slot = TRIREME_MEMBER(model.qk_norm),
                .help = "RMSNorm on the queries and keys of each head; olmo2 and olmo3: over all "
                        "heads together",
                .effect = Effect::kNumerics});
}

void add_experts(Options& to) {
  const auto has_experts = [](const RunConfig& c) {
    return is_of(c, {"mixtral", "olmoe", "qwen3_moe", "gpt_oss", "glm4_moe"});
  };
  const auto is_qwen = [](const RunConfig& c) { return is_of(c, {"qwen3_moe"}); };
  to.push_back({.key = "model.num_experts",
                .slot = TRIREME_MEMBER(model.num_experts),
                .help = "number of experts per layer",
                .effect = Effect::kNumerics,
                .range = between(1, ops::kMostExperts),
                .applies = has_experts});
  to.push_back({.key = "model.num_experts_per_tok",
                .slot = TRIREME_MEMBER(model.num_experts_per_tok),
                .help = "experts per token: the top k by router probability",
                .effect = Effect::kNumerics,
                .range = between(1, ops::kMostChoices),
                .applies = has_experts});
  to.push_back({.key = "model.moe_intermediate_size",
                .slot = TRIREME_MEMBER(model.moe_intermediate_size),
                .help = "hidden size of an expert",
                .effect = Effect::kNumerics,
                .range = between(1, 4194304),
                .default_text = "required",
                .applies = has_experts});
  to.push_back({.key = "model.norm_topk_prob",
                .slot = TRIREME_MEMBER(model.norm_topk_prob),
                .help = "normalize a token's top-k router probabilities to a sum of 1",
                .effect = Effect::kNumerics,
                .applies = [](const RunConfig& c) {
                  return is_of(c, {"olmoe", "qwen3_moe", "glm4_moe"});
                }});
  to.push_back({.key = "model.swiglu_limit",
                .slot = TRIREME_MEMBER(model.swiglu_limit),
                .help = "largest value of an expert's gate, and largest magnitude of its up "
                        "projection, in the gated activation",
                .effect = Effect::kNumerics,
                .range = {.least = 0, .most = 1e6, .above = true},
                .applies = [](const RunConfig& c) { return is_of(c, {"gpt_oss"}); }});
  to.push_back({.key = "model.decoder_sparse_step",
                .slot = TRIREME_MEMBER(model.decoder_sparse_step),
                .help = "every n-th layer has experts, the others an MLP",
                .effect = Effect::kNumerics,
                .range = between(1, 10000),
                .applies = is_qwen});
  to.push_back({.key = "model.mlp_only_layers",
                .slot = TRIREME_MEMBER(model.mlp_only_layers),
                .help = "indices, from 0, of layers with an MLP instead of experts",
                .effect = Effect::kNumerics,
                .range = at_least(0),
                .applies = is_qwen});
  const auto is_glm = [](const RunConfig& c) { return is_of(c, {"glm4_moe"}); };
  to.push_back({.key = "model.first_k_dense_replace",
                .slot = TRIREME_MEMBER(model.first_k_dense_replace),
                .help = "number of first layers with an MLP instead of experts",
                .effect = Effect::kNumerics,
                .range = between(0, 10000),
                .applies = is_glm});
  to.push_back({.key = "model.n_shared_experts",
                .slot = TRIREME_MEMBER(model.n_shared_experts),
                .help =
                    "shared experts per layer, which every token has in addition to the experts "
                    "that its router chooses; they are one MLP of hidden size n_shared_experts "
                    "* moe_intermediate_size",
                .effect = Effect::kNumerics,
                .range = between(0, ops::kMostExperts),
                .applies = is_glm});
  to.push_back({.key = "model.scoring_func",
                .slot = TRIREME_MEMBER(model.scoring_func),
                .help = "scores of a router's logits: softmax over experts, or sigmoid of each",
                .effect = Effect::kNumerics,
                .allowed = {"softmax", "sigmoid"},
                .applies = is_glm});
  to.push_back({.key = "model.routed_scaling_factor",
                .slot = TRIREME_MEMBER(model.routed_scaling_factor),
                .help = "factor of a token's expert weights, after norm_topk_prob",
                .effect = Effect::kNumerics,
                .range = {.least = 0, .most = 1e6, .above = true},
                .applies = is_glm});
  to.push_back({.key = "model.n_group",
                .slot = TRIREME_MEMBER(model.n_group),
                .help = "number of equal groups of consecutive experts for group-limited routing "
                        "(DeepSeek-V3); 1: no limit",
                .effect = Effect::kNumerics,
                .range = between(1, ops::kMostExpertGroups),
                .applies = is_glm});
  to.push_back({.key = "model.topk_group",
                .slot = TRIREME_MEMBER(model.topk_group),
                .help =
                    "groups among which a token chooses its experts: those with the highest sum "
                    "of their two best scores",
                .effect = Effect::kNumerics,
                .range = between(1, ops::kMostExpertGroups),
                .applies = is_glm});
  to.push_back({.key = "model.router_bias_update_rate",
                .slot = TRIREME_MEMBER(model.router_bias_update_rate),
                .help =
                    "after each step this is added to the router bias of experts chosen less "
                    "often than the mean of their layer, and subtracted where more often "
                    "(auxiliary-loss-free load balancing; DeepSeek-V3: 1e-3); the bias is added "
                    "to scores for the choice of experts only; 0: the bias stays as it is",
                .effect = Effect::kNumerics,
                .range = between(0, 1),
                .applies = is_glm});
  to.push_back({.key = "model.router_aux_loss_coef",
                .slot = TRIREME_MEMBER(model.router_aux_loss_coef),
                .help = "coefficient of the load balancing loss (Switch Transformer), computed for "
                        "each layer and micro-batch and averaged over them; 0: none",
                .effect = Effect::kNumerics,
                .range = between(0, 1e6),
                .applies = has_experts});
  to.push_back({.key = "model.router_force_load_balancing",
                .slot = TRIREME_MEMBER(model.router_force_load_balancing),
                .help = "for benchmarks: tokens choose experts in turn instead of by router "
                        "probability, so that all have the same load; such a model is of no use",
                .effect = Effect::kNumerics,
                .applies = has_experts});
  to.push_back({.key = "model.router_z_loss_coef",
                .slot = TRIREME_MEMBER(model.router_z_loss_coef),
                .help = "coefficient of the router z-loss (ST-MoE), as 1e-3: the squared "
                        "log-sum-exp of a token's router logits, averaged over tokens and layers "
                        "with experts; 0: none",
                .effect = Effect::kNumerics,
                .range = between(0, 1e6),
                .applies = has_experts});
}

void add_special_tokens(Options& to) {
  to.push_back({.key = "model.bos_token_id",
                .slot = TRIREME_MEMBER(special_tokens.bos_token_id),
                .help = "id of the beginning-of-text token, for exports; -1: the tokenizer's "
                        "end-of-document token, which precedes every text",
                .range = at_least(-1)});
  to.push_back({.key = "model.eos_token_id",
                .slot = TRIREME_MEMBER(special_tokens.eos_token_id),
                .help = "ids of the end-of-text tokens, as [2, 7], for exports and trireme "
                        "generate; empty: the tokenizer's end-of-document token",
                .range = at_least(0)});
}

void add_initialization(Options& to) {
  to.push_back({.key = "model.initializer_range",
                .slot = TRIREME_MEMBER(model.initializer_range),
                .help = "standard deviation of the initial weights",
                .range = {.least = 0, .most = 10, .above = true}});
  to.push_back({.key = "model.scale_residual_init",
                .slot = TRIREME_MEMBER(model.scale_residual_init),
                .help = "divide the initial weights of attention and MLP output projections by "
                        "sqrt(2 * num_hidden_layers), as in GPT-2"});
}

}  // namespace

void add_model(Options& to) {
  to.push_back({.key = "model.flavor",
                .slot = TRIREME_MEMBER(flavor),
                .help = "preset of the [model] keys; each key can be overridden",
                .allowed = flavor_names()});
  to.push_back({.key = "model.model_type",
                .slot = TRIREME_MEMBER(model.model_type),
                .help = "model family: kind of norm and of position embedding, and the defaults of "
                        "the other [model] keys",
                .effect = Effect::kNumerics,
                .allowed = model_types()});
  add_model_shape(to);
  std::vector<std::pair<std::string, RunConfig>> families;
  for (const ModelFamily& family : model_families()) {
    families.emplace_back(family.defaults.model_type, RunConfig()).second.model = family.defaults;
  }
  Options parts;
  add_model_parts(parts);
  add_experts(parts);
  add_special_tokens(parts);
  add_initialization(parts);
  for (Option& part : parts) {
    if (part.default_text.empty()) part.default_text = defaults_text(part, families);
    to.push_back(std::move(part));
  }
}

}  // namespace trireme
