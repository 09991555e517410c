#include "trainer/convert/huggingface/config_json.h"

#include <algorithm>
#include <array>

#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/json.h"
#include "model/stage/model_family.h"
#include "trainer/config/difference.h"
#include "trainer/config/reader.h"
#include "trainer/config/value_text.h"
#include "trainer/convert/huggingface/config_fields.h"

namespace trireme {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::uint64_t kMostText = 16u << 20;
constexpr std::int64_t kUsualLength = 1024;

std::string architecture_of(const std::string& model_type) {
  if (model_type == "gpt2") return "GPT2LMHeadModel";
  return model_type == "llama"   ? "LlamaForCausalLM"
         : model_type == "qwen2" ? "Qwen2ForCausalLM"
                                 : "Qwen3ForCausalLM";
}

// Converts the fields of one model to TOML lines.
class Import {
 public:
  Import(ConfigFields& fields, std::string family) : fields_(fields), family_(std::move(family)) {}

  std::string toml() {
    line("model_type", to_toml(family_));
    what_must_be_neutral();
    if (family_ == "gpt2") {
      gpt2();
    } else {
      rotary();
    }
    const double deviation = fields_.number_or("initializer_range", 0.02);
    if (deviation > 0 && deviation <= 10) line("initializer_range", to_toml(deviation));
    special_tokens();
    return say("[model]\n", lines_, "\n[training]\nseq_len = ", std::min(positions_, kUsualLength),
               "\ndtype = ", to_toml(dtype()), "\n");
  }

 private:
  void line(const char* key, const std::string& value) { lines_ += say(key, " = ", value, "\n"); }
  void line(const char* key, std::int64_t value) { line(key, std::to_string(value)); }
  void line(const char* key, bool value) { line(key, std::string(value ? "true" : "false")); }

  void sizes(const char* hidden, const char* layers, const char* heads, const char* positions) {
    line("vocab_size", fields_.size("vocab_size"));
    line("hidden_size", fields_.size(hidden));
    line("num_hidden_layers", fields_.size(layers));
    line("num_attention_heads", fields_.size(heads));
    positions_ = fields_.size(positions);
    line("max_position_embeddings", positions_);
  }

  void gpt2() {
    sizes("n_embd", "n_layer", "n_head", "n_positions");
    if (fields_.find("n_inner")) line("intermediate_size", fields_.size("n_inner"));
    line("layer_norm_epsilon", to_toml(fields_.number_or("layer_norm_epsilon", 1e-5)));
    line("tie_word_embeddings", fields_.flag_or("tie_word_embeddings", true));
    fields_.only("activation_function", {"gelu_new", "gelu_pytorch_tanh"});  // the same function
    fields_.only("scale_attn_weights", {true});
    fields_.only("scale_attn_by_inverse_layer_idx", {false});
    for (const char* key :
         {"n_ctx", "reorder_and_upcast_attn", "summary_activation", "summary_first_dropout",
          "summary_proj_to_labels", "summary_type", "summary_use_proj", "task_specific_params"}) {
      fields_.ignore(key);
    }
    for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) dropout(key);
  }

  void rotary() {
    sizes("hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings");
    line("intermediate_size", fields_.size("intermediate_size"));
    if (family_ == "llama") {
      const std::int64_t own = fields_.size_or("num_key_value_heads", 0);
      if (own > 0) line("num_key_value_heads", own);
    } else {
      line("num_key_value_heads", fields_.size("num_key_value_heads"));
    }
    if (fields_.find("head_dim")) line("head_dim", fields_.size("head_dim"));
    line("rms_norm_eps", to_toml(fields_.number_or("rms_norm_eps", 1e-6)));
    line("tie_word_embeddings", fields_.flag_or("tie_word_embeddings", false));
    fields_.only("hidden_act", {"silu"});
    rope();
    if (family_ == "qwen2") {
      fields_.only("attention_bias", {true});  // the class always has biases
      fields_.only("mlp_bias", {false});
    } else {
      line("attention_bias", fields_.flag_or("attention_bias", false));
      if (family_ == "llama") line("mlp_bias", fields_.flag_or("mlp_bias", false));
      if (family_ == "qwen3") fields_.only("mlp_bias", {false});
    }
    sliding_window();
    dropout("attention_dropout");
    fields_.ignore("pretraining_tp");
  }

  // transformers 4 has rope_theta and rope_scaling, transformers 5 both in rope_parameters.
  void rope() {
    double theta = fields_.number_or("rope_theta", 10000);
    const char* const name = fields_.find("rope_parameters") ? "rope_parameters" : "rope_scaling";
    fields_.ignore("rope_scaling");
    const json none = json::object();
    const json* table = fields_.find(name);
    if (table && !table->is_object()) fields_.refuse(name, *table, "must be a table");
    ConfigFields parts(table && table->is_object() ? *table : none, name);
    theta = parts.number_or("rope_theta", theta);
    line("rope_theta", to_toml(theta));
    parts.only("partial_rotary_factor", {1, 1.0});
    const std::string type = parts.text_or("rope_type", parts.text_or("type", "default"));
    if (type == "llama3") {
      line("rope_scaling",
           say("{ rope_type = \"llama3\", factor = ", to_toml(parts.number_or("factor", 0)),
               ", low_freq_factor = ", to_toml(parts.number_or("low_freq_factor", 0)),
               ", high_freq_factor = ", to_toml(parts.number_or("high_freq_factor", 0)),
               ", original_max_position_embeddings = ",
               parts.size_or("original_max_position_embeddings",
                             fields_.size_or("original_max_position_embeddings", 0)),
               " }"));
    } else if (type != "default") {
      fields_.refuse(say(name, ".rope_type"), type, "is not implemented");
      return;
    }
    fields_.ignore("original_max_position_embeddings");
    for (const std::string& more : parts.finish()) {
      fields_.refuse(name, *table, say(shown(more), " is not implemented"));
    }
  }

  // Qwen uses sliding windows only with use_sliding_window.
  void sliding_window() {
    fields_.only("use_sliding_window", {false});
    fields_.ignore("max_window_layers");
    if (family_ == "llama") {
      fields_.only("sliding_window", {});
    } else {
      fields_.ignore("sliding_window");
    }
    const json* layers = fields_.find("layer_types");
    if (!layers) return;
    const bool full = layers->is_array() &&
                      std::all_of(layers->begin(), layers->end(),
                                  [](const json& layer) { return layer == "full_attention"; });
    if (!full) fields_.refuse("layer_types", *layers, "only full_attention is implemented");
  }

  void dropout(const char* key) {
    if (fields_.number_or(key, 0) != 0) {
      fields_.note(
          say(key, " = ", to_toml(fields_.number_or(key, 0)), ": dropout is not used in training"));
    }
  }

  void what_must_be_neutral() {
    const std::string class_name = architecture_of(family_);
    fields_.only("architectures", {json::array({class_name})});
    for (const char* key :
         {"quantization_config", "compression_config", "auto_map", "attn_logit_softcapping",
          "final_logit_softcapping", "logit_softcapping", "query_pre_attn_scalar",
          "attention_multiplier", "scale_depth", "dim_model_base", "kv_lora_rank", "q_lora_rank",
          "moe_intermediate_size", "attention_chunk_size", "no_rope_layers", "norm_type",
          "layer_norm_type"}) {
      fields_.only(key, {});
    }
    for (const char* key : {"logit_scale", "logits_scaling", "embedding_multiplier",
                            "residual_multiplier", "scale_emb", "partial_rotary_factor"}) {
      fields_.only(key, {1, 1.0});
    }
    for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts",
                            "num_experts_per_tok", "n_shared_experts"}) {
      fields_.only(key, {0});
    }
    for (const char* key :
         {"is_encoder_decoder", "add_cross_attention", "use_qk_norm", "qk_norm", "qk_layernorm",
          "use_parallel_residual", "parallel_attn", "alibi", "use_mrope", "rope_interleave"}) {
      fields_.only(key, {false});
    }
    fields_.only("pruned_heads", {json::object()});
    for (const char* key : {"_name_or_path", "transformers_version", "use_cache", "pad_token_id",
                            "model_type", "is_decoder"}) {
      fields_.ignore(key);
    }
  }

  void special_tokens() {
    const auto ids = [&](const char* key) {
      std::string list;
      const json* const given = fields_.find(key);
      for (const json& id : !given ? json::array() : given->is_array() ? *given : json{*given}) {
        if (id.is_number_integer() && id.get<std::int64_t>() >= 0)
          list += say(list.empty() ? "" : ", ", id.get<std::int64_t>());
      }
      return list;
    };
    const std::string bos = ids("bos_token_id"), eos = ids("eos_token_id");
    if (!bos.empty() && bos.find(',') == std::string::npos) line("bos_token_id", bos);
    if (!eos.empty()) line("eos_token_id", "[" + eos + "]");
  }

  std::string dtype() {
    const std::string name = fields_.text_or("dtype", fields_.text_or("torch_dtype", "float32"));
    return name == "bfloat16" || name == "float16" ? name : "float32";
  }

  ConfigFields& fields_;
  const std::string family_;
  std::string lines_;
  std::int64_t positions_ = 0;
};

ordered_json gpt2_fields(const ModelConfig& m) {
  return {{"vocab_size", m.vocab_size},
          {"n_positions", m.max_position_embeddings},
          {"n_ctx", m.max_position_embeddings},
          {"n_embd", m.hidden_size},
          {"n_layer", m.num_hidden_layers},
          {"n_head", m.num_attention_heads},
          {"n_inner", m.intermediate_size},
          {"activation_function", name_of_value(m.activation)},
          {"layer_norm_epsilon", m.norm_eps},
          {"scale_attn_weights", true},
          {"resid_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"attn_pdrop", 0.0}};
}

ordered_json rotary_fields(const ModelConfig& m) {
  ordered_json fields = {{"vocab_size", m.vocab_size},
                         {"max_position_embeddings", m.max_position_embeddings},
                         {"hidden_size", m.hidden_size},
                         {"intermediate_size", m.intermediate_size},
                         {"num_hidden_layers", m.num_hidden_layers},
                         {"num_attention_heads", m.num_attention_heads},
                         {"num_key_value_heads", m.num_key_value_heads},
                         {"head_dim", m.head_dim},
                         {"hidden_act", name_of_value(m.activation)},
                         {"rms_norm_eps", m.norm_eps},
                         {"rope_theta", m.rope_theta},
                         {"rope_scaling", nullptr},
                         {"attention_dropout", 0.0}};
  const RopeScaling& s = m.rope_scaling;
  if (s.factor != 1) {
    fields["rope_scaling"] = {
        {"rope_type", "llama3"},
        {"factor", s.factor},
        {"low_freq_factor", s.low_freq_factor},
        {"high_freq_factor", s.high_freq_factor},
        {"original_max_position_embeddings", s.original_max_position_embeddings}};
  }
  if (m.model_type != "qwen2") fields["attention_bias"] = m.attention_bias;
  if (m.model_type == "llama") {
    fields["mlp_bias"] = m.mlp_bias;
  } else {
    fields["use_sliding_window"] = false;
    fields["sliding_window"] = nullptr;
    fields["max_window_layers"] = m.num_hidden_layers;
  }
  return fields;
}

}  // namespace

ImportedConfig read_config_json(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  const std::string where = file.string();
  const json object = parse_json<CheckpointError>(read_text(file, kMostText), where);
  ConfigFields fields(object, where);
  const std::string family = fields.text_or("model_type", "");
  const std::vector<std::string> known = model_types();
  if (std::find(known.begin(), known.end(), family) == known.end()) {
    fields.refuse("model_type", family, "is not supported; expected gpt2, llama, qwen2 or qwen3");
    fields.finish();
  }
  ImportedConfig imported;
  imported.toml = Import(fields, family).toml();
  imported.notes = fields.finish();
  try {
    imported.config = read_config({where, imported.toml, folder}, {}, Purpose::kInference).config;
  } catch (const ConfigError& why) {
    throw CheckpointError(why.what());
  }
  return imported;
}

SpecialTokens special_tokens(const SpecialTokensConfig& said, std::int64_t end_of_document) {
  const auto one = [](std::int64_t id) { return id >= 0 ? ordered_json(id) : ordered_json(); };
  SpecialTokens ends{one(said.bos_token_id >= 0 ? said.bos_token_id : end_of_document),
                     one(end_of_document)};
  if (said.eos_token_id.size() == 1) ends.eos = said.eos_token_id.front();
  if (said.eos_token_id.size() > 1) ends.eos = said.eos_token_id;
  return ends;
}

ordered_json config_json(const ModelConfig& model, DType dtype, const SpecialTokens& ends) {
  ordered_json config = {{"architectures", {architecture_of(model.model_type)}},
                         {"model_type", model.model_type}};
  config.update(model.model_type == "gpt2" ? gpt2_fields(model) : rotary_fields(model));
  config["tie_word_embeddings"] = model.tie_word_embeddings;
  config["initializer_range"] = model.initializer_range;
  config["bos_token_id"] = ends.bos;
  config["eos_token_id"] = ends.eos;
  config["use_cache"] = true;
  config["torch_dtype"] = name_of(dtype);
  return config;
}

ordered_json generation_config_json(const SpecialTokens& ends) {
  return {{"_from_model_config", true}, {"bos_token_id", ends.bos}, {"eos_token_id", ends.eos}};
}

void require_exportable(const ModelConfig& model, const std::filesystem::path& folder) {
  RunConfig before, after;
  before.model = model;
  try {
    after.model = read_config_json(folder).config.model;
  } catch (const CheckpointError& why) {
    throw CheckpointError(
        say("the model cannot be exported as ", model.model_type, ": ", why.what()));
  }
  after.model.scale_residual_init = model.scale_residual_init;  // affects initialization only
  if (after.model == model) return;
  std::string keys;
  for (const Change& change : difference(before, after)) {
    keys += say("\n  ", change.key, ": ", change.before, " -> ", change.after);
  }
  throw CheckpointError(say("the model cannot be exported: transformers' ", model.model_type,
                            " has no counterpart of these values:", keys));
}

}  // namespace trireme
