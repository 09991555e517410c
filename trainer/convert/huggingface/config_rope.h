#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "model/stage/model_config.h"
#include "trainer/convert/huggingface/config_families.h"
#include "trainer/convert/huggingface/config_fields.h"

namespace trireme {

// Rotary positions of a config.json as lines of [model]: rope_theta and rope_scaling, as
// transformers 4 has them, or rope_parameters (transformers 5), by kind of layer in some families.
std::string import_rope(ConfigFields& fields, const ForeignFamily& family);

// The same in transformers 4's words, which 5 also reads.
void export_rope(const ModelConfig& model, nlohmann::ordered_json& to);

}  // namespace trireme
