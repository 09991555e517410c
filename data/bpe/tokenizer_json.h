#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/bpe/added_tokens.h"
#include "data/bpe/decoder.h"
#include "data/bpe/normalizer.h"
#include "data/bpe/pre_tokenizer.h"
#include "data/bpe/symbols.h"

namespace trireme::data {

// Contents of a Hugging Face tokenizer.json of a BPE, or of a tiktoken file.
struct TokenizerJson {
  struct Merge {
    std::int32_t left, right, result;
    std::uint32_t rank;  // lowest first
  };
  std::vector<std::optional<std::string>> texts{};  // [vocab] byte level: bytes of each id
  std::vector<std::int32_t> words{};                // ids that merges can produce
  SymbolsSpec symbols{};
  std::vector<Merge> merges{};
  bool ignore_merges = false;  // a word in the vocabulary is not split
  std::vector<AddedToken> added{};
  std::vector<NormalizerStep> normalizer{};
  PreTokenizerSpec pre_tokenizer{};
  std::vector<DecoderStep> decoder{};
  std::string surroundings{};  // special tokens that the post-processor adds around a text
};

// Throws DataError beginning with `path` if the file is invalid, or has unsupported features that
// would change ids, all of which are named.
TokenizerJson parse_tokenizer_json(const std::string& path, std::string_view content);

}  // namespace trireme::data
