#include "trainer/convert/huggingface/config_rope.h"

#include "model/base/error.h"
#include "model/stage/layer_config.h"
#include "model/stage/model_family.h"
#include "trainer/config/rope_members.h"
#include "trainer/config/value_text.h"

namespace trireme {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using Type = RopeScaling::Type;

constexpr const char* kLength = "original_max_position_embeddings";

// Whose class has a scaling by default.
bool is_gpt_oss(std::string_view model_type) {
  return model_type == "gpt_oss";
}

class RopeImport {
 public:
  RopeImport(ConfigFields& fields, const ForeignFamily& family)
      : fields_(fields), family_(family) {}

  std::string lines() {
    const json* table = fields_.find("rope_parameters");
    name_ = table ? "rope_parameters" : "rope_scaling";
    if (!table) table = fields_.find("rope_scaling");
    fields_.ignore("rope_scaling");
    theta_ = fields_.number_or("rope_theta", family_.find(ConfigField::Role::kRope)->otherwise);
    if (family_.has("partial_rotary_factor")) {
      const double fraction = fields_.number_or("partial_rotary_factor", -1);
      if (fraction >= 0) partial_ = fraction;
    }
    if (family_.has("rope_local_base_freq")) {
      local_ = fields_.number_or("rope_local_base_freq", 1e4);
    }
    if (table && !table->is_object()) {
      fields_.refuse(name_, *table, "must be a table");
      return "";
    }
    if (table && (table->contains(kFullAttention) || table->contains(kSlidingAttention))) {
      by_layer(*table);
    } else if (table) {
      one(*table, name_);
    }
    fields_.ignore(kLength);
    if (!table && is_gpt_oss(family_.model_type)) {
      fields_.refuse("rope_scaling", nullptr,
                     "is read as YaRN by some versions of transformers and as none by others; "
                     "write it out");
    }
    std::string text = say("rope_theta = ", to_toml(theta_), "\n");
    if (rope_.type != Type::kDefault) text += say("rope_scaling = ", text_of(rope_), "\n");
    if (partial_) text += say("partial_rotary_factor = ", to_toml(*partial_), "\n");
    if (local_) text += say("rope_local_base_freq = ", to_toml(*local_), "\n");
    return text;
  }

 private:
  void by_layer(const json& table) {
    const auto part = [&](std::string_view kind) {
      const auto found = table.find(kind);
      return found == table.end() || found->is_null() ? json::object() : *found;
    };
    one(part(kFullAttention), say(name_, ".", kFullAttention));
    const json sliding = part(kSlidingAttention);
    const std::string where = say(name_, ".", kSlidingAttention);
    ConfigFields parts(sliding, where);
    const std::string type = parts.text_or("rope_type", "default");
    if (type != "default") fields_.refuse(say(where, ".rope_type"), type, "is not implemented");
    const double theta = parts.number_or("rope_theta", local_.value_or(theta_));
    if (local_) {
      local_ = theta;
    } else if (theta != theta_) {
      fields_.refuse(say(where, ".rope_theta"), theta, "differs from that of full attention");
    }
    parts.ignore("partial_rotary_factor");
    finish(parts, sliding, where);
  }

  // One table of scaling.
  void one(const json& table, const std::string& where) {
    ConfigFields parts(table, where);
    theta_ = parts.number_or("rope_theta", theta_);
    const double partial = parts.number_or("partial_rotary_factor", partial_.value_or(1));
    if (family_.has("partial_rotary_factor")) {
      partial_ = partial;
    } else if (partial != 1) {
      fields_.refuse(say(where, ".partial_rotary_factor"), partial, "is not implemented");
    }
    std::string type = parts.text_or("rope_type", parts.text_or("type", "default"));
    // Older names of Phi-3's.
    if (std::string(family_.model_type) == "phi3" && (type == "su" || type == "yarn")) {
      type = "longrope";
    }
    const auto known = rope_type_names();
    const auto found = std::find(known.begin(), known.end(), type);
    if (found == known.end()) {
      fields_.refuse(say(where, ".rope_type"), type, "is not implemented");
      return;
    }
    rope_.type = static_cast<Type>(found - known.begin());
    for (const RopeMember& member : rope_members()) {
      if (!member.is_of(rope_.type)) continue;
      std::visit([&](auto pointer) { take(parts, member.name, rope_.*pointer); }, member.pointer);
    }
    const bool has_length = find_rope_member(kLength)->is_of(rope_.type);
    if (has_length && rope_.original_max_position_embeddings == 0) {
      const std::int64_t usual = std::string(family_.model_type) == "phi3" ? 4096 : 0;
      rope_.original_max_position_embeddings = fields_.size_or(kLength, usual);
    }
    const std::string problem = problem_of(rope_);
    if (!problem.empty()) fields_.refuse(where, table, problem);
    finish(parts, table, where);
  }

  void finish(ConfigFields& parts, const json& table, const std::string& where) {
    for (const std::string& more : parts.finish()) {
      fields_.refuse(where, table, say(shown(more), " is not implemented"));
    }
  }

  static void take(ConfigFields& parts, const char* name, double& to) {
    to = parts.number_or(name, to);
  }
  static void take(ConfigFields& parts, const char* name, bool& to) {
    to = parts.flag_or(name, to);
  }
  static void take(ConfigFields& parts, const char* name, std::int64_t& to) {
    to = parts.size_or(name, to);
  }
  static void take(ConfigFields& parts, const char* name, std::vector<double>& to) {
    const json* const list = parts.find(name);
    if (list == nullptr) return;
    for (const json& item : list->is_array() ? *list : json::array()) {
      if (const auto number = json_as<double>(item)) to.push_back(*number);
    }
    if (!list->is_array() || to.size() != list->size()) {
      parts.refuse(name, *list, "must be a list of numbers");
    }
  }

  ConfigFields& fields_;
  const ForeignFamily& family_;
  std::string name_;
  double theta_ = 0;
  std::optional<double> partial_, local_;
  RopeScaling rope_;
};

// The table of a scaling; Phi-3 has the original length outside it, in `outer`.
ordered_json scaling_json(const ModelConfig& model, ordered_json& outer) {
  const RopeScaling& rope = model.rope_scaling;
  if (rope.type == Type::kDefault) {
    return is_gpt_oss(model.model_type) ? ordered_json{{"rope_type", "default"}} : ordered_json();
  }
  const bool is_phi = model.model_type == "phi3";
  const RopeScaling unset{.type = rope.type};
  ordered_json table{{is_phi ? "type" : "rope_type", name_of_value(rope.type)}};
  for (const RopeMember& member : rope_members()) {
    std::visit(
        [&](auto pointer) {
          // Llama 3 requires all of its members.
          const bool is_needed = rope.type == Type::kLlama3 || rope.*pointer != unset.*pointer;
          if (!member.is_of(rope.type) || !is_needed) return;
          (is_phi && std::string_view(member.name) == kLength ? outer : table)[member.name] =
              rope.*pointer;
        },
        member.pointer);
  }
  return table;
}

}  // namespace

std::string import_rope(ConfigFields& fields, const ForeignFamily& family) {
  return RopeImport(fields, family).lines();
}

void export_rope(const ModelConfig& model, ordered_json& to) {
  to["rope_theta"] = model.rope_theta;
  to["rope_scaling"] = scaling_json(model, to);
  if (!find_family(model.model_type).rope_scaling_of_full_attention_only) return;
  // Version 5 misreads OLMo 3's rope_theta unless it stands here, too.
  ordered_json full{{"rope_type", "default"}}, sliding = full;
  if (to["rope_scaling"].is_object()) full = to["rope_scaling"];
  full["rope_theta"] = model.rope_theta;
  sliding["rope_theta"] =
      model.rope_local_base_freq > 0 ? model.rope_local_base_freq : model.rope_theta;
  to["rope_parameters"] = {{kFullAttention, full}, {kSlidingAttention, sliding}};
}

}  // namespace trireme
