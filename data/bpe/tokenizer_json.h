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

// What a Hugging Face tokenizer.json of a byte-level BPE says.
struct TokenizerJson {
  struct Merge {
    std::int32_t left, right, result;
  };
  struct Split {
    std::string pattern;
    Pattern::Kind kind;
    bool keeps_gaps;  // what lies between matches is a part too
  };
  std::vector<std::optional<std::string>> texts{};  // [vocab] the bytes each id stands for
  std::vector<std::int32_t> words{};                // of them those that merges can make
  std::array<std::int32_t, 256> bytes{};            // ids of single bytes, -1 without
  std::vector<Merge> merges{};                      // by rank
  std::vector<Split> splits{};                      // one inside the other
  std::vector<AddedToken> added{};
  bool ignore_merges = false;   // a word of the vocabulary is its own id
  bool nfc = false;             // texts are normalized to form C
  bool prefix_space = false;    // put before every part that begins without one...
  bool splits_by_gpt2 = false;  // ... and then GPT-2's pattern cuts it
  std::string surroundings{};   // special tokens the post-processor would put around a text
};

// The pattern of GPT-2, which the library has built in.
extern const char* const kGpt2Pattern;

// Throws DataError beginning with `path`: for what is no such file, and naming everything
// in it that would change ids and is not implemented.
TokenizerJson parse_tokenizer_json(const std::string& path, std::string_view content);

}  // namespace trireme::data
