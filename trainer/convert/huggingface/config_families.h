#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace trireme {

// A field of a family's config.json.
struct ConfigField {
  enum class Role : std::uint8_t {
    kKey,          // the value of `key`
    kOptional,     // a number; null: 0
    kFixed,        // one of `values`: any other changes the computation
    kActivation,   // of the MLP; exports write the first of `values` that means the same
    kRope,         // rope_theta, rope_scaling, rope_parameters
    kDropout,      // not used in training
    kWindow,       // sliding_window, `otherwise` tokens if it is missing; null: none
    kUseWindow,    // use_sliding_window
    kFirstWindow,  // max_window_layers: layers before the first with a window
    kPattern,      // sliding_window_pattern: one layer of so many, the last, has no window
    kLayerTypes,
    kNoRopeLayers,
    kExperts,      // num_experts, which transformers 5 writes as num_local_experts
    kDenseLayers,  // mlp_only_layers
    kIgnored,      // no effect
  };
  const char* name;
  const char* key = "";  // in [model]; empty, with kKey: of the same name
  Role role = Role::kKey;
  nlohmann::json otherwise = {};            // transformers' default; null: as ours
  std::vector<nlohmann::json> values = {};  // of kFixed and kActivation
  bool is_required = false;
  bool is_written = true;  // by exports, with the value of `key` if there is one

  std::string our_key() const;
};

// A model family's class in transformers, its fields in the order of exports.
struct ForeignFamily {
  const char* model_type;
  const char* architecture;
  std::vector<ConfigField> fields;

  const ConfigField* find(ConfigField::Role role) const;
  bool has(const std::string& name) const;
};

const std::vector<ForeignFamily>& foreign_families();
// Null if unknown.
const ForeignFamily* find_foreign(const std::string& model_type);

}  // namespace trireme
