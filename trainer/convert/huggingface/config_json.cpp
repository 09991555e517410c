#include "trainer/convert/huggingface/config_json.h"

#include <algorithm>

#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/json.h"
#include "trainer/config/difference.h"
#include "trainer/config/option.h"
#include "trainer/config/reader.h"
#include "trainer/config/value_text.h"
#include "trainer/convert/huggingface/config_fields.h"

namespace trireme {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::uint64_t kMostText = 16u << 20;
constexpr std::int64_t kUsualLength = 1024;

// A field of config.json.
struct Field {
  enum class Role : std::uint8_t {
    kKey,      // the value of `key`
    kFixed,    // one of `values`: any other changes the computation
    kRope,     // rope_theta and rope_scaling
    kDropout,  // not used in training
    kWindow,   // sliding_window, `otherwise` tokens if it is missing; null: none
    kIgnored,  // no effect
  };
  const char* name;
  const char* key = "";  // in [model]; empty, with kKey: of the same name
  Role role = Role::kKey;
  json otherwise = {};            // kKey: transformers' default; null: as ours
  std::vector<json> values = {};  // kFixed
  bool is_required = false;
  bool is_written = true;  // by exports, with the value of `key` if there is one

  std::string our_key() const {
    return say("model.", *key == 0 && role == Role::kKey ? name : key);
  }
};

Field required(const char* name, const char* key = "") {
  return {.name = name, .key = key, .is_required = true};
}
Field fixed(const char* name, std::vector<json> values) {
  return {.name = name, .role = Field::Role::kFixed, .values = std::move(values)};
}
Field activation(const char* name, std::vector<json> values) {
  return {
      .name = name, .key = "hidden_act", .role = Field::Role::kFixed, .values = std::move(values)};
}
Field dropout(const char* name) {
  return {.name = name, .role = Field::Role::kDropout};
}
Field ignored(const char* name, const char* key = "") {
  return {.name = name, .key = key, .role = Field::Role::kIgnored};
}
// Refused unless it has one of the values; not a field of the family, so not written.
Field refused(const char* name, std::vector<json> values = {}) {
  Field field = fixed(name, std::move(values));
  field.is_written = false;
  return field;
}

// A model family's class in transformers, its fields in the order of exports.
struct ForeignFamily {
  const char* model_type;
  const char* architecture;
  std::vector<Field> fields;
};

// Llama's fields, with those of another class at the end.
std::vector<Field> rotary(const Field& key_value_heads, std::vector<Field> others) {
  std::vector<Field> fields{required("vocab_size"),
                            required("max_position_embeddings"),
                            required("hidden_size"),
                            required("intermediate_size"),
                            required("num_hidden_layers"),
                            required("num_attention_heads"),
                            key_value_heads,
                            {.name = "head_dim"},
                            activation("hidden_act", {"silu"}),
                            {.name = "rms_norm_eps", .otherwise = 1e-6},
                            {.name = "rope_theta", .role = Field::Role::kRope},
                            dropout("attention_dropout")};
  fields.insert(fields.end(), others.begin(), others.end());
  fields.push_back({.name = "tie_word_embeddings", .otherwise = false});
  return fields;
}

const std::vector<ForeignFamily>& foreign_families() {
  const Field attention_bias{.name = "attention_bias", .otherwise = false};
  const Field no_mlp_bias = refused("mlp_bias", {false});
  // Qwen uses sliding windows only with use_sliding_window.
  const Field windows = fixed("use_sliding_window", {false}), window = ignored("sliding_window"),
              window_layers = ignored("max_window_layers", "num_hidden_layers");
  static const std::vector<ForeignFamily> kAll{
      {"gpt2",
       "GPT2LMHeadModel",
       {required("vocab_size"),
        required("n_positions", "max_position_embeddings"),
        ignored("n_ctx", "max_position_embeddings"),
        required("n_embd", "hidden_size"),
        required("n_layer", "num_hidden_layers"),
        required("n_head", "num_attention_heads"),
        {.name = "n_inner", .key = "intermediate_size"},
        activation("activation_function", {"gelu_new", "gelu_pytorch_tanh"}),  // the same function
        {.name = "layer_norm_epsilon", .otherwise = 1e-5},
        fixed("scale_attn_weights", {true}),
        dropout("resid_pdrop"),
        dropout("embd_pdrop"),
        dropout("attn_pdrop"),
        {.name = "tie_word_embeddings", .otherwise = true},
        refused("scale_attn_by_inverse_layer_idx", {false})}},
      {"llama", "LlamaForCausalLM",
       rotary({.name = "num_key_value_heads"}, {attention_bias,
                                                {.name = "mlp_bias", .otherwise = false},
                                                refused("use_sliding_window", {false}),
                                                refused("sliding_window")})},
      {"mistral", "MistralForCausalLM",
       rotary(required("num_key_value_heads"),
              {{.name = "sliding_window", .role = Field::Role::kWindow, .otherwise = 4096},
               refused("attention_bias", {false}),
               no_mlp_bias,
               refused("use_sliding_window", {false})})},
      // The class always has biases.
      {"qwen2", "Qwen2ForCausalLM",
       rotary(required("num_key_value_heads"),
              {refused("attention_bias", {true}), no_mlp_bias, windows, window, window_layers})},
      {"qwen3", "Qwen3ForCausalLM",
       rotary(required("num_key_value_heads"),
              {attention_bias, no_mlp_bias, windows, window, window_layers})}};
  return kAll;
}

const ForeignFamily* find_foreign(const std::string& model_type) {
  for (const ForeignFamily& family : foreign_families()) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

// Converts the fields of one model to TOML lines.
class Import {
 public:
  Import(ConfigFields& fields, const ForeignFamily& family) : fields_(fields), family_(family) {}

  std::string toml() {
    line("model_type", to_toml(std::string(family_.model_type)));
    what_must_be_neutral();
    for (const Field& field : family_.fields) take(field);
    layer_types();
    const double deviation = fields_.number_or("initializer_range", 0.02);
    if (deviation > 0 && deviation <= 10) line("initializer_range", to_toml(deviation));
    special_tokens();
    return say("[model]\n", lines_, "\n[training]\nseq_len = ", std::min(positions_, kUsualLength),
               "\ndtype = ", to_toml(dtype()), "\n");
  }

 private:
  void line(const std::string& key, const std::string& value) {
    lines_ += say(key, " = ", value, "\n");
  }

  void take(const Field& field) {
    switch (field.role) {
      case Field::Role::kKey:
        return take_key(field);
      case Field::Role::kFixed:
        return fields_.only(field.name, field.values);
      case Field::Role::kRope:
        return rope();
      case Field::Role::kDropout:
        return dropout(field.name);
      case Field::Role::kWindow:
        return window(field);
      case Field::Role::kIgnored:
        return fields_.ignore(field.name);
    }
  }

  void take_key(const Field& field) {
    const Option& option = *find_option(field.our_key());
    if (!fields_.find(field.name) && field.otherwise.is_null() && !field.is_required) return;
    RunConfig config;
    const Slot slot = option.slot(config);
    std::string value;
    if (std::holds_alternative<std::int64_t*>(slot)) {
      const std::int64_t size = fields_.size(field.name);
      if (option.name() == "max_position_embeddings") positions_ = size;
      value = std::to_string(size);
    } else if (std::holds_alternative<bool*>(slot)) {
      value = fields_.flag_or(field.name, field.otherwise.get<bool>()) ? "true" : "false";
    } else {
      value = to_toml(fields_.number_or(field.name, field.otherwise.get<double>()));
    }
    line(option.name(), value);
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

  // A window that reaches over the longest sequence is none.
  void window(const Field& field) {
    const bool is_missing = !fields_.has(field.name);
    const std::int64_t none = positions_;
    const std::int64_t size =
        is_missing ? field.otherwise.get<std::int64_t>() : fields_.size_or(field.name, none);
    if (size >= positions_) return;
    fields_.refuse(field.name, is_missing ? json() : json(size),
                   say(is_missing ? say("transformers then takes ", size, "; a") : std::string("a"),
                       " sliding window below max_position_embeddings = ", positions_,
                       " is not implemented; only null is, and windows at least as long"));
  }

  void layer_types() {
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
    fields_.only("architectures", {json::array({family_.architecture})});
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
    for (const char* key :
         {"_name_or_path", "transformers_version", "use_cache", "pad_token_id", "model_type",
          "is_decoder", "pretraining_tp", "max_window_layers", "reorder_and_upcast_attn",
          "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
          "summary_use_proj", "task_specific_params"}) {
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
  const ForeignFamily& family_;
  std::string lines_;
  std::int64_t positions_ = 0;
};

ordered_json scaling_json(const RopeScaling& s) {
  if (s.factor == 1) return nullptr;
  return {{"rope_type", "llama3"},
          {"factor", s.factor},
          {"low_freq_factor", s.low_freq_factor},
          {"high_freq_factor", s.high_freq_factor},
          {"original_max_position_embeddings", s.original_max_position_embeddings}};
}

ordered_json json_of(const Slot& slot) {
  if (const auto* const size = std::get_if<std::int64_t*>(&slot)) return **size;
  if (const auto* const number = std::get_if<double*>(&slot)) return **number;
  if (const auto* const flag = std::get_if<bool*>(&slot)) return **flag;
  return name_of_value(*std::get<ActivationKind*>(slot));
}

void write(const Field& field, RunConfig& config, ordered_json& to) {
  if (field.role == Field::Role::kRope) {
    to[field.name] = config.model.rope_theta;
    to["rope_scaling"] = scaling_json(config.model.rope_scaling);
  } else if (field.role == Field::Role::kDropout) {
    to[field.name] = 0.0;
  } else if (const Option* const option = find_option(field.our_key())) {
    to[field.name] = json_of(option->slot(config));
  } else {
    to[field.name] = field.values.empty() ? ordered_json() : ordered_json(field.values.front());
  }
}

}  // namespace

ImportedConfig read_config_json(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  const std::string where = file.string();
  const json object = parse_json<CheckpointError>(read_text(file, kMostText), where);
  ConfigFields fields(object, where);
  const std::string model_type = fields.text_or("model_type", "");
  const ForeignFamily* const family = find_foreign(model_type);
  if (!family) {
    std::string known;
    for (const ForeignFamily& one : foreign_families()) {
      known += say(known.empty() ? "" : ", ", one.model_type);
    }
    fields.refuse("model_type", model_type, say("is not supported; expected one of ", known));
    fields.finish();
  }
  ImportedConfig imported;
  imported.toml = Import(fields, *family).toml();
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
  const ForeignFamily* const family = find_foreign(model.model_type);
  require(family != nullptr, "transformers' class of ", model.model_type, " is not known");
  ordered_json config = {{"architectures", ordered_json::array({family->architecture})},
                         {"model_type", model.model_type}};
  RunConfig own;  // slots point to mutable members
  own.model = model;
  for (const Field& field : family->fields) {
    if (field.is_written) write(field, own, config);
  }
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
