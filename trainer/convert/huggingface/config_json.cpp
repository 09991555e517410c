#include "trainer/convert/huggingface/config_json.h"

#include <algorithm>
#include <cmath>

#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/json.h"
#include "model/stage/layer_config.h"
#include "trainer/config/difference.h"
#include "trainer/config/option.h"
#include "trainer/config/reader.h"
#include "trainer/config/value_text.h"
#include "trainer/convert/huggingface/config_families.h"
#include "trainer/convert/huggingface/config_fields.h"
#include "trainer/convert/huggingface/config_rope.h"

namespace trireme {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::uint64_t kMostText = 16u << 20;
constexpr std::int64_t kUsualLength = 1024;

using Field = ConfigField;
using Role = ConfigField::Role;

// Converts the fields of one model to TOML lines.
class Import {
 public:
  Import(ConfigFields& fields, const ForeignFamily& family) : fields_(fields), family_(family) {}

  std::string toml() {
    line("model_type", to_toml(std::string(family_.model_type)));
    what_must_be_neutral();
    for (const Field& field : family_.fields) take(field);
    layers();
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
      case Role::kKey:
        return take_key(field);
      case Role::kOptional:
        return line(field.name, to_toml(optional(field)));
      case Role::kFixed:
        return fields_.only(field.name, field.values);
      case Role::kActivation:
        return activation(field);
      case Role::kRope:
        lines_ += import_rope(fields_, family_);
        return;
      case Role::kDropout:
        return dropout(field.name);
      case Role::kWindow:
      case Role::kUseWindow:
      case Role::kFirstWindow:
      case Role::kPattern:
      case Role::kLayerTypes:
      case Role::kNoRopeLayers:
        return;  // layers()
      case Role::kExperts:
        return experts(field.name);
      case Role::kDenseLayers:
        return dense_layers(field.name);
      case Role::kIgnored:
        return fields_.ignore(field.name);
    }
  }

  double optional(const Field& field) {
    const bool is_missing = !fields_.has(field.name);
    return fields_.number_or(field.name, is_missing ? field.otherwise.get<double>() : 0);
  }

  // transformers 5 may write its other name, too.
  void experts(const char* key) {
    const char* const other = "num_local_experts";
    const std::int64_t count = fields_.size(fields_.has(key) ? key : other);
    fields_.only(other, std::vector<json>(1, json(count)));
    line(key, std::to_string(count));
  }

  void activation(const Field& field) {
    fields_.only(field.name, field.values);
    const std::string name = fields_.text_or(field.name, "");
    if (name.empty()) return;
    line("hidden_act", to_toml(name == "gelu_pytorch_tanh" ? "gelu_new" : name));
  }

  void take_key(const Field& field) {
    // import_rope() reads these with the tables of transformers 5.
    if (option_of_rope(field.name)) return;
    const Option& option = *find_option(field.our_key());
    if (!fields_.find(field.name) && field.otherwise.is_null() && !field.is_required) return;
    RunConfig config;
    const Slot slot = option.slot(config);
    std::string value;
    if (std::holds_alternative<std::int64_t*>(slot)) {
      const std::int64_t size =
          field.otherwise.is_null()
              ? fields_.size(field.name)
              : fields_.size_or(field.name, field.otherwise.get<std::int64_t>());
      if (option.name() == "max_position_embeddings") positions_ = size;
      if (option.name() == "num_hidden_layers") count_ = size;
      value = std::to_string(size);
    } else if (std::holds_alternative<bool*>(slot)) {
      value = fields_.flag_or(field.name, field.otherwise.get<bool>()) ? "true" : "false";
    } else {
      value = to_toml(fields_.number_or(field.name, field.otherwise.get<double>()));
    }
    line(option.name(), value);
  }

  static bool option_of_rope(std::string_view name) {
    return name == "partial_rotary_factor" || name == "rope_local_base_freq";
  }

  void dense_layers(const char* key) {
    std::vector<std::int64_t> layers;
    const json* const given = fields_.find(key);
    if (given == nullptr) return;
    for (const json& item : given->is_array() ? *given : json::array()) {
      if (item.is_number_integer()) layers.push_back(item);
    }
    if (!given->is_array() || layers.size() != given->size()) {
      fields_.refuse(key, *given, "must be a list of layers' numbers");
    }
    line(key, list(layers));
  }

  // Windows and positions by layer.
  void layers() {
    const std::vector<std::int64_t> no_rope = no_rope_layers();
    if (!no_rope.empty()) line("no_rope_layers", list(no_rope));
    const Field* const field = family_.find(Role::kWindow);
    if (field == nullptr) {
      only_full_attention();
      return;
    }
    std::int64_t window = 0;
    if (fields_.has(field->name)) {
      window = fields_.size_or(field->name, 0);
    } else if (!field->otherwise.is_null()) {
      window = field->otherwise.get<std::int64_t>();
    }
    const bool has_switch = family_.find(Role::kUseWindow) != nullptr;
    const bool is_used = !has_switch || fields_.flag_or("use_sliding_window", false);
    std::vector<std::string> types;
    const auto pattern = [&](auto is_sliding) {
      for (std::int64_t i = 0; i < count_; ++i) {
        types.emplace_back(is_sliding(i) ? kSlidingAttention : kFullAttention);
      }
    };
    const Field* const first = family_.find(Role::kFirstWindow);
    const std::int64_t first_window =
        first ? fields_.size_or(first->name, first->otherwise.get<std::int64_t>()) : 0;
    const Field* const every = family_.find(Role::kPattern);
    const std::int64_t full_every =
        every ? fields_.size_or("_sliding_window_pattern",
                                fields_.size_or(every->name, every->otherwise.get<std::int64_t>()))
              : 0;
    const json* const given = fields_.find("layer_types");
    if (given && family_.find(Role::kLayerTypes)) {
      given_types(*given, types);
    } else if (window == 0 || !is_used) {
      pattern([](std::int64_t) { return false; });
    } else if (first) {
      pattern([&](std::int64_t i) { return i >= first_window; });
    } else if (every) {
      pattern([&](std::int64_t i) { return (i + 1) % full_every != 0; });
    } else if (!no_rope.empty()) {
      pattern([&](std::int64_t i) { return no_rope[i] == 0; });
    }
    const bool all_full = !types.empty() && std::all_of(types.begin(), types.end(), [](auto& type) {
      return type == kFullAttention;
    });
    line("sliding_window", std::to_string(all_full || !is_used ? 0 : window));
    if (!all_full && is_used && !types.empty()) line("layer_types", list(types));
  }

  void given_types(const json& given, std::vector<std::string>& types) {
    for (const json& type : given.is_array() ? given : json::array()) {
      if (type == kFullAttention || type == kSlidingAttention) types.push_back(type);
    }
    if (!given.is_array() || types.size() != given.size()) {
      fields_.refuse("layer_types", given,
                     "only full_attention and sliding_attention are implemented");
    } else if (types.size() != static_cast<std::size_t>(count_)) {
      fields_.refuse("layer_types", given, say("must have ", count_, " entries"));
      types.clear();
    }
  }

  void only_full_attention() {
    std::vector<std::string> types;
    const json* const given = fields_.find("layer_types");
    if (given == nullptr) return;
    given_types(*given, types);
    if (std::count(types.begin(), types.end(), kSlidingAttention) > 0) {
      fields_.refuse("layer_types", *given, "only full_attention is implemented");
    }
  }

  // By layer, 0: none; empty: as the family.
  std::vector<std::int64_t> no_rope_layers() {
    std::vector<std::int64_t> layers;
    if (family_.find(Role::kNoRopeLayers) == nullptr) return layers;
    const std::int64_t every = fields_.size_or("no_rope_layer_interval", 4);
    const json* const given = fields_.find("no_rope_layers");
    if (given == nullptr) {
      for (std::int64_t i = 0; i < count_; ++i) layers.push_back((i + 1) % every != 0 ? 1 : 0);
      return layers;
    }
    for (const json& item : given->is_array() ? *given : json::array()) {
      if (item == 0 || item == 1) layers.push_back(item);
    }
    if (!given->is_array() || layers.size() != given->size() ||
        layers.size() < static_cast<std::size_t>(count_)) {
      fields_.refuse("no_rope_layers", *given, say("must be a list of ", count_, " times 0 or 1"));
    }
    layers.resize(count_, 1);
    return layers;
  }

  template <class T>
  static std::string list(std::vector<T> values) {
    return to_toml(Slot(&values));
  }

  void dropout(const char* key) {
    if (fields_.number_or(key, 0) != 0) {
      fields_.note(say(key, " = ", to_toml(fields_.number_or(key, 0)),
                       ": not taken; dropout is set by training.attention_dropout, "
                       "residual_dropout and embedding_dropout"));
    }
  }

  void what_must_be_neutral() {
    fields_.only("architectures", {json::array({family_.architecture})});
    const auto neutral = [&](std::initializer_list<const char*> keys,
                             const std::vector<json>& values) {
      for (const char* key : keys) {
        if (!family_.has(key)) fields_.only(key, values);
      }
    };
    quantization();
    neutral({"compression_config", "auto_map", "attn_logit_softcapping", "final_logit_softcapping",
             "logit_softcapping", "query_pre_attn_scalar", "attention_multiplier", "scale_depth",
             "dim_model_base", "kv_lora_rank", "q_lora_rank", "moe_intermediate_size",
             "mlp_only_layers", "attention_chunk_size", "no_rope_layers", "norm_type",
             "layer_norm_type", "rope_local_base_freq", "sliding_window_pattern"},
            {});
    neutral({"logit_scale", "logits_scaling", "embedding_multiplier", "residual_multiplier",
             "scale_emb", "partial_rotary_factor"},
            {1, 1.0});
    neutral({"num_experts", "n_routed_experts", "num_experts_per_tok", "n_shared_experts"}, {0});
    if (!family_.find(Role::kExperts)) neutral({"num_local_experts"}, {0});
    neutral({"is_encoder_decoder", "add_cross_attention", "use_qk_norm", "qk_norm", "qk_layernorm",
             "use_parallel_residual", "parallel_attn", "alibi", "use_mrope", "rope_interleave"},
            {false});
    fields_.only("pruned_heads", {json::object()});
    for (const char* key :
         {"_name_or_path", "transformers_version", "use_cache", "pad_token_id", "model_type",
          "is_decoder", "pretraining_tp", "max_window_layers", "cache_implementation",
          "reorder_and_upcast_attn", "summary_activation", "summary_first_dropout",
          "summary_proj_to_labels", "summary_type", "summary_use_proj", "task_specific_params"}) {
      fields_.ignore(key);
    }
  }

  void quantization() {
    const json* const given = fields_.find("quantization_config");
    if (given == nullptr) return;
    const bool is_mxfp4 = given->is_object() && given->value("quant_method", json()) == "mxfp4";
    fields_.refuse("quantization_config", *given,
                   is_mxfp4 ? "MXFP4 weights are not supported; write them as bfloat16 with "
                              "transformers: AutoModelForCausalLM.from_pretrained(FOLDER, "
                              "quantization_config=Mxfp4Config(dequantize=True))"
                              ".save_pretrained(NEW_FOLDER)"
                            : "quantized weights are not supported; import unquantized ones");
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
  std::int64_t positions_ = 0, count_ = 0;
};

ordered_json json_of(const Slot& slot) {
  if (const auto* const size = std::get_if<std::int64_t*>(&slot)) return **size;
  if (const auto* const number = std::get_if<double*>(&slot)) return **number;
  if (const auto* const flag = std::get_if<bool*>(&slot)) return **flag;
  if (const auto* const list = std::get_if<std::vector<std::int64_t>*>(&slot)) return **list;
  return name_of_value(*std::get<Activation*>(slot));
}

ordered_json activation_json(const Field& field, Activation activation) {
  const std::string name(name_of_value(activation));
  for (const json& value : field.values) {
    if (value == name || (name == "gelu_new" && value == "gelu_pytorch_tanh")) return value;
  }
  return name;
}

// Windows and positions by layer; the lists are in the model.
void write_layers(const Field& field, const ModelConfig& model, ordered_json& to) {
  const std::vector<LayerType>& types = model.layer_types;
  const auto first_window = std::find(types.begin(), types.end(), LayerType::kSlidingAttention);
  switch (field.role) {
    case Role::kWindow:
      to[field.name] = model.sliding_window > 0 ? ordered_json(model.sliding_window) : nullptr;
      return;
    case Role::kUseWindow:
      to[field.name] = model.sliding_window > 0;
      return;
    case Role::kFirstWindow:
      to[field.name] =
          model.sliding_window > 0 ? first_window - types.begin() : model.num_hidden_layers;
      return;
    case Role::kPattern:
      // For versions of transformers without layer_types.
      if (first_window != types.begin()) return;
      to[field.name] =
          std::find(types.begin(), types.end(), LayerType::kFullAttention) - types.begin() + 1;
      return;
    case Role::kLayerTypes:
      to[field.name] =
          std::vector<std::string>(model.num_hidden_layers, std::string(kFullAttention));
      for (std::size_t i = 0; i < types.size(); ++i) to[field.name][i] = name_of_value(types[i]);
      return;
    case Role::kNoRopeLayers:
      to[field.name] = std::vector<std::int64_t>(model.num_hidden_layers, 1);
      if (!model.no_rope_layers.empty()) to[field.name] = model.no_rope_layers;
      return;
    default:
      return;
  }
}

void write(const Field& field, RunConfig& config, ordered_json& to) {
  if (field.role == Role::kRope) {
    export_rope(config.model, to);
  } else if (field.role == Role::kActivation) {
    to[field.name] = activation_json(field, config.model.activation);
  } else if (field.role == Role::kDropout) {
    to[field.name] = 0.0;
  } else if (const Option* const option = find_option(field.our_key())) {
    ordered_json& value = to[field.name] = json_of(option->slot(config));
    // transformers 5 refuses numbers of another type than its class declares.
    if (std::string_view(field.name) == "query_pre_attn_scalar" &&
        value == std::trunc(value.get<double>())) {
      value = value.get<std::int64_t>();
    }
    if (field.role == Role::kOptional && to[field.name] == 0) to[field.name] = nullptr;
  } else if (field.role != Role::kFixed && field.role != Role::kIgnored) {
    write_layers(field, config.model, to);
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
  own.model = with_layer_lists(model);
  for (const Field& field : family->fields) {
    if (field.is_written) write(field, own, config);
  }
  config["initializer_range"] = model.initializer_range;
  config["bos_token_id"] = ends.bos;
  config["eos_token_id"] = ends.eos;
  config["pad_token_id"] = nullptr;  // a family's default may lie outside of the vocabulary
  config["use_cache"] = true;
  config["torch_dtype"] = name_of(dtype);
  return config;
}

ordered_json generation_config_json(const SpecialTokens& ends) {
  return {{"_from_model_config", true}, {"bos_token_id", ends.bos}, {"eos_token_id", ends.eos}};
}

void require_exportable(const ModelConfig& model, const std::filesystem::path& folder) {
  RunConfig before, after;
  before.model = with_layer_lists(model);
  try {
    after.model = read_config_json(folder).config.model;
  } catch (const CheckpointError& why) {
    throw CheckpointError(
        say("the model cannot be exported as ", model.model_type, ": ", why.what()));
  }
  // These affect initialization or training only.
  after.model.scale_residual_init = model.scale_residual_init;
  after.model.router_bias_update_rate = model.router_bias_update_rate;
  if (after.model == before.model) return;
  std::string keys;
  for (const Change& change : difference(before, after)) {
    keys += say("\n  ", change.key, ": ", change.before, " -> ", change.after);
  }
  throw CheckpointError(say("the model cannot be exported: transformers' ", model.model_type,
                            " has no counterpart of these values:", keys));
}

}  // namespace trireme
