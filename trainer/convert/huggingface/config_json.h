#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/tensor/dtype.h"
#include "trainer/config/run_config.h"

namespace trireme {

// A Hugging Face config.json converted to a config of this trainer.
struct ImportedConfig {
  std::string toml;                // the sections [model] and [training]
  RunConfig config;                // the same, parsed
  std::vector<std::string> notes;  // ignored fields
};

// Converts config.json in `folder`, as written by transformers 4 or 5. Throws CheckpointError that
// lists every field that changes the computation and is not implemented.
ImportedConfig read_config_json(const std::filesystem::path& folder);

// bos and eos token ids: numbers, lists or null.
struct SpecialTokens {
  nlohmann::ordered_json bos, eos;
};
// The ids of the config; if not set, both are the tokenizer's end of document (-1: none).
SpecialTokens special_tokens(const SpecialTokensConfig& said, std::int64_t end_of_document);

nlohmann::ordered_json config_json(const ModelConfig& model, DType dtype,
                                   const SpecialTokens& ends);
nlohmann::ordered_json generation_config_json(const SpecialTokens& ends);

// Throws CheckpointError if transformers would read another model from the family's config.json in
// `folder`, with the keys that differ.
void require_exportable(const ModelConfig& model, const std::filesystem::path& folder);

}  // namespace trireme
