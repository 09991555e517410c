#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace trireme::data {

struct DeclaredEnd {
  std::string content{};
  std::optional<std::int32_t> id{};  // from added_tokens_decoder, if it is there
  std::string place{};               // the file that declares it
};

// The eos_token declared by tokenizer_config.json, otherwise by special_tokens_map.json, in the
// folder of the tokenizer.json at `path`; empty content if there is none. Throws DataError for
// damaged files.
DeclaredEnd declared_end(const std::string& path);

}  // namespace trireme::data
