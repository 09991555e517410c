#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/bpe/added_tokens.h"
#include "data/bpe/pattern.h"

namespace trireme::data {

// Contents of a Hugging Face tokenizer.json of a byte-level BPE.
struct TokenizerJson {
  struct Merge {
    std::int32_t left, right, result;
  };
  struct Split {
    std::string pattern;
    Pattern::Kind kind;
    bool keeps_gaps;  // text between matches is a part too
  };
  std::vector<std::optional<std::string>> texts{};  // [vocab] bytes of each id
  std::vector<std::int32_t> words{};                // ids that merges can produce
  std::array<std::int32_t, 256> bytes{};            // ids of single bytes; -1: none
  std::vector<Merge> merges{};                      // by rank
  std::vector<Split> splits{};                      // nested
  std::vector<AddedToken> added{};
  bool ignore_merges = false;   // a word in the vocabulary is not split
  bool nfc = false;             // normalize to NFC
  bool prefix_space = false;    // add a space before every part that has none,
  bool splits_by_gpt2 = false;  // then split by GPT-2's pattern
  std::string surroundings{};   // special tokens that the post-processor adds around a text
};

// GPT-2's pattern, built into the tokenizers library.
extern const char* const kGpt2Pattern;

// Throws DataError beginning with `path` if the file is invalid, or has unsupported features that
// would change ids, all of which are named.
TokenizerJson parse_tokenizer_json(const std::string& path, std::string_view content);

}  // namespace trireme::data
