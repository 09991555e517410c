#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace trireme::data {

struct DeclaredEnd {
  std::string content{};
  std::optional<std::int32_t> id{};  // where added_tokens_decoder says it
  std::string place{};               // the file that says so
};

// The eos_token that Hugging Face's tokenizer_config.json, else special_tokens_map.json, names
// beside the tokenizer.json at `path`; empty content: none. Throws DataError for damaged files.
DeclaredEnd declared_end(const std::string& path);

}  // namespace trireme::data
