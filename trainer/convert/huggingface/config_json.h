#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/tensor/dtype.h"
#include "trainer/config/run_config.h"

namespace trireme {

// What a Hugging Face config.json says, in our words.
struct ImportedConfig {
  std::string toml;                // the sections [model] and [training]
  RunConfig config;                // the same, read
  std::vector<std::string> notes;  // fields that the import takes no notice of, for people
};

// Of config.json in `folder`, in the words of transformers 4 or 5. Throws CheckpointError that
// names every field which changes what the model computes in a way that is not implemented.
ImportedConfig read_config_json(const std::filesystem::path& folder);

// What texts begin and end with, as numbers, lists of them or null.
struct TextEnds {
  nlohmann::ordered_json bos, eos;
};
// As the config says, or the tokenizer's end of a document, which is also what the first one
// follows; -1: none.
TextEnds text_ends(const TextEndsConfig& said, std::int64_t end_of_document);

nlohmann::ordered_json config_json(const ModelConfig& model, DType dtype, const TextEnds& ends);
nlohmann::ordered_json generation_config_json(const TextEnds& ends);

// Throws CheckpointError that names what of `model` the family's config.json, in `folder`, cannot
// say: transformers would compute something else from it.
void require_sayable(const ModelConfig& model, const std::filesystem::path& folder);

}  // namespace trireme
