#include "trainer/convert/huggingface/config_families.h"

#include <algorithm>

#include "model/base/error.h"

namespace trireme {
namespace {

using nlohmann::json;
using Field = ConfigField;
using Role = ConfigField::Role;

Field required(const char* name, const char* key = "") {
  return {.name = name, .key = key, .is_required = true};
}
Field key(const char* name, json otherwise, const char* key = "") {
  return {.name = name, .key = key, .otherwise = std::move(otherwise)};
}
Field optional(const char* name, json otherwise) {
  return {.name = name, .role = Role::kOptional, .otherwise = std::move(otherwise)};
}
Field of_role(const char* name, Role role, json otherwise = {}) {
  return {.name = name, .role = role, .otherwise = std::move(otherwise)};
}
Field fixed(const char* name, std::vector<json> values) {
  return {.name = name, .role = Role::kFixed, .values = std::move(values)};
}
Field activation(const char* name, std::vector<json> values) {
  return {
      .name = name, .key = "hidden_act", .role = Role::kActivation, .values = std::move(values)};
}
Field dropout(const char* name) {
  return of_role(name, Role::kDropout);
}
Field ignored(const char* name, const char* key = "") {
  return {.name = name, .key = key, .role = Role::kIgnored};
}
// Says again what another field says.
Field duplicate(const char* name) {
  Field field = ignored(name);
  field.is_written = false;
  return field;
}
// Refused unless it has one of the values; not a field of the family, so not written.
Field refused(const char* name, std::vector<json> values = {}) {
  Field field = fixed(name, std::move(values));
  field.is_written = false;
  return field;
}

// Llama's fields, with those of another class at the end.
std::vector<Field> rotary(const Field& key_value_heads, double epsilon, double theta,
                          std::vector<Field> others) {
  std::vector<Field> fields{required("vocab_size"),
                            required("max_position_embeddings"),
                            required("hidden_size"),
                            required("intermediate_size"),
                            required("num_hidden_layers"),
                            required("num_attention_heads"),
                            key_value_heads,
                            {.name = "head_dim"},
                            key("rms_norm_eps", epsilon),
                            of_role("rope_theta", Role::kRope, theta),
                            dropout("attention_dropout")};
  fields.insert(fields.end(), others.begin(), others.end());
  return fields;
}

std::vector<ForeignFamily> all_families() {
  const Field attention_bias = key("attention_bias", false), mlp_bias = key("mlp_bias", false),
              no_mlp_bias = refused("mlp_bias", {false}),
              no_use = refused("use_sliding_window", {false}),
              untied = key("tie_word_embeddings", false), tied = key("tie_word_embeddings", true),
              key_value_heads = required("num_key_value_heads"),
              as_many_heads{.name = "num_key_value_heads"},
              causal = refused("use_bidirectional_attention", {false}),
              layer_types = of_role("layer_types", Role::kLayerTypes),
              partial = key("partial_rotary_factor", 1.0),
              silu = activation("hidden_act", {"silu", "gelu", "gelu_pytorch_tanh", "relu2"}),
              gelu = activation("hidden_activation", {"gelu_pytorch_tanh", "gelu", "silu"});
  const auto window = [](json otherwise) {
    return of_role("sliding_window", Role::kWindow, std::move(otherwise));
  };
  const Field use_window = of_role("use_sliding_window", Role::kUseWindow);
  const std::vector<Field> qwen_windows{
      use_window, window(4096), of_role("max_window_layers", Role::kFirstWindow, 28), layer_types};
  const auto with = [](std::vector<Field> fields, const std::vector<Field>& more) {
    fields.insert(fields.end(), more.begin(), more.end());
    return fields;
  };
  const Field experts{.name = "num_experts", .key = "num_experts", .role = Role::kExperts};
  const Field dense_layers{
      .name = "mlp_only_layers", .key = "mlp_only_layers", .role = Role::kDenseLayers};
  // Whether transformers adds the router's loss, which only its training does.
  const auto not_written = [](const char* name) {
    Field field = ignored(name);
    field.is_written = false;
    return field;
  };
  const Field no_router_logits = not_written("output_router_logits");
  // All layers have experts, of the width that the file calls intermediate_size.
  const auto sparse = [&](std::vector<Field> fields) {
    for (Field& field : fields) {
      if (std::string_view(field.name) == "intermediate_size") field.key = "moe_intermediate_size";
    }
    fields.push_back(no_router_logits);
    return fields;
  };
  const std::vector<Field> gemma{gelu,
                                 refused("hidden_act", {"gelu_pytorch_tanh", "gelu", "silu"}),
                                 attention_bias,
                                 no_mlp_bias,
                                 key("query_pre_attn_scalar", 256.0),
                                 window(4096),
                                 layer_types,
                                 causal,
                                 tied};
  return {{"gpt2",
           "GPT2LMHeadModel",
           {required("vocab_size"),
            required("n_positions", "max_position_embeddings"),
            ignored("n_ctx", "max_position_embeddings"),
            required("n_embd", "hidden_size"),
            required("n_layer", "num_hidden_layers"),
            required("n_head", "num_attention_heads"),
            {.name = "n_inner", .key = "intermediate_size"},
            activation("activation_function",
                       {"gelu_new", "gelu_pytorch_tanh", "gelu", "silu", "relu2"}),
            key("layer_norm_epsilon", 1e-5),
            fixed("scale_attn_weights", {true}),
            dropout("resid_pdrop"),
            dropout("embd_pdrop"),
            dropout("attn_pdrop"),
            tied,
            refused("scale_attn_by_inverse_layer_idx", {false})}},
          {"llama", "LlamaForCausalLM",
           rotary(as_many_heads, 1e-6, 1e4,
                  {silu, attention_bias, mlp_bias, no_use, refused("sliding_window"), untied})},
          {"mistral", "MistralForCausalLM",
           rotary(key_value_heads, 1e-6, 1e4,
                  {silu, window(4096), refused("attention_bias", {false}), no_mlp_bias, no_use,
                   untied})},
          // The class always has biases.
          {"qwen2", "Qwen2ForCausalLM",
           with(rotary(key_value_heads, 1e-6, 1e4,
                       {silu, refused("attention_bias", {true}), no_mlp_bias, untied}),
                qwen_windows)},
          {"qwen3", "Qwen3ForCausalLM",
           with(rotary(key_value_heads, 1e-6, 1e4, {silu, attention_bias, no_mlp_bias, untied}),
                qwen_windows)},
          {"smollm3", "SmolLM3ForCausalLM",
           rotary(key_value_heads, 1e-6, 2e6,
                  {silu, attention_bias, mlp_bias, of_role("no_rope_layers", Role::kNoRopeLayers),
                   use_window, window({}), layer_types, tied})},
          {"phi3", "Phi3ForCausalLM",
           rotary(as_many_heads, 1e-5, 1e4,
                  {silu, partial, dropout("resid_pdrop"), dropout("embd_pdrop"), window({}),
                   refused("attention_bias", {false}), no_mlp_bias, untied})},
          {"granite", "GraniteForCausalLM",
           rotary(as_many_heads, 1e-6, 1e4,
                  {silu, attention_bias, mlp_bias, key("embedding_multiplier", 1.0),
                   key("attention_multiplier", 1.0), key("residual_multiplier", 1.0),
                   key("logits_scaling", 1.0), untied})},
          {"olmo2", "Olmo2ForCausalLM",
           rotary(as_many_heads, 1e-5, 1e4, {silu, attention_bias, no_mlp_bias, untied})},
          {"olmo3", "Olmo3ForCausalLM",
           rotary(as_many_heads, 1e-5, 5e5,
                  {silu, attention_bias, no_mlp_bias, window(4096), layer_types, untied})},
          {"gemma2", "Gemma2ForCausalLM",
           with(rotary(key_value_heads, 1e-6, 1e4,
                       {optional("attn_logit_softcapping", 50.0),
                        optional("final_logit_softcapping", 30.0)}),
                gemma)},
          {"gemma3_text", "Gemma3ForCausalLM",
           with(rotary(key_value_heads, 1e-6, 1e6,
                       {key("rope_local_base_freq", 1e4),
                        refused("attn_logit_softcapping"),  // the class ignores it
                        optional("final_logit_softcapping", 0.0),
                        of_role("sliding_window_pattern", Role::kPattern, 6)}),
                gemma)},
          {"mixtral", "MixtralForCausalLM",
           sparse(rotary(
               key_value_heads, 1e-5, 1e6,
               {silu, window({}), required("num_experts_per_tok"),
                required("num_local_experts", "num_experts"), key("router_aux_loss_coef", 0.001),
                refused("router_jitter_noise", {0, 0.0}), untied}))},
          {"olmoe", "OlmoeForCausalLM",
           sparse(rotary(
               as_many_heads, 1e-5, 1e4,
               {silu, attention_bias, refused("clip_qkv"), required("num_experts_per_tok"), experts,
                key("norm_topk_prob", false), key("router_aux_loss_coef", 0.01), untied}))},
          {"qwen3_moe", "Qwen3MoeForCausalLM",
           with(rotary(key_value_heads, 1e-6, 1e4,
                       {silu, attention_bias, required("moe_intermediate_size"),
                        required("num_experts_per_tok"), experts, key("norm_topk_prob", false),
                        required("decoder_sparse_step"), dense_layers,
                        key("router_aux_loss_coef", 0.001), no_router_logits, untied}),
                {use_window, window(4096)})},  // in all layers
          {"gpt_oss", "GptOssForCausalLM",
           sparse(rotary(
               key_value_heads, 1e-5, 150000,
               {activation("hidden_act", {"silu"}), key("attention_bias", true), no_mlp_bias,
                window(128), layer_types, required("num_experts_per_tok"),
                required("num_local_experts", "num_experts"), key("swiglu_limit", 7.0),
                refused("swiglu_alpha", {1.702}), key("router_aux_loss_coef", 0.001),
                duplicate("experts_per_token"), duplicate("initial_context_length"), untied}))},
          {"glm4_moe", "Glm4MoeForCausalLM",
           rotary(key_value_heads, 1e-5, 1e4,
                  {silu, key("partial_rotary_factor", 0.5), attention_bias, no_mlp_bias,
                   key("use_qk_norm", false, "qk_norm"), required("moe_intermediate_size"),
                   required("num_experts_per_tok"), required("n_routed_experts", "num_experts"),
                   key("n_shared_experts", 1), key("routed_scaling_factor", 1.0), key("n_group", 1),
                   key("topk_group", 1), key("first_k_dense_replace", 1),
                   key("norm_topk_prob", true), refused("scoring_func", {"sigmoid"}),
                   not_written("num_nextn_predict_layers"), no_router_logits, untied})},
          {"glm4", "Glm4ForCausalLM",
           rotary(key_value_heads, 1.5625e-7, 1e4,
                  {silu, key("partial_rotary_factor", 0.5), key("attention_bias", true),
                   no_mlp_bias, untied})}};
}

}  // namespace

std::string ConfigField::our_key() const {
  return say("model.", *key == 0 && (role == Role::kKey || role == Role::kOptional) ? name : key);
}

const ConfigField* ForeignFamily::find(ConfigField::Role role) const {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const ConfigField& field) { return field.role == role; });
  return found == fields.end() ? nullptr : &*found;
}

bool ForeignFamily::has(const std::string& name) const {
  return std::any_of(fields.begin(), fields.end(),
                     [&](const ConfigField& field) { return name == field.name; });
}

const std::vector<ForeignFamily>& foreign_families() {
  static const std::vector<ForeignFamily> kAll = all_families();
  return kAll;
}

const ForeignFamily* find_foreign(const std::string& model_type) {
  for (const ForeignFamily& family : foreign_families()) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

}  // namespace trireme
