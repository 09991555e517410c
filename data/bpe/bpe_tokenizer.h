#pragma once
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/bpe/added_tokens.h"
#include "data/bpe/merges.h"
#include "data/bpe/pattern.h"
#include "data/bpe/tokenizer_json.h"
#include "data/tokenizer.h"

namespace trireme::data {

// A byte-level BPE from a Hugging Face tokenizer.json, as of GPT-2, Llama 3 and Qwen.
//
// Ids equal those of encode(text, add_special_tokens=False) of the tokenizers library: added
// tokens, including special ones, are matched in the text, but none are added around it. Invalid
// UTF-8, which the library rejects, is encoded byte by byte.
//
// The end-of-document token is the eos_token of tokenizer_config.json or special_tokens_map.json in
// the same folder; if tokenizer.json does not define it, its id comes from added_tokens_decoder.
// Without an eos_token it is the first of <|endoftext|>, <|end_of_text|>, </s>, <eos> that is an
// added token.
class BpeTokenizer : public Tokenizer {
 public:
  // `content` is that of the file at `path`. Throws DataError naming unsupported features.
  BpeTokenizer(const std::string& path, const std::string& content);

  std::string name() const override { return "tokenizer.json"; }
  std::string path() const override { return path_; }
  std::string hash() const override { return hash_; }
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(texts_.size()); }
  std::int32_t end_of_document() const override { return end_of_document_; }
  bool lossless() const override { return lossless_; }
  std::string surroundings() const override { return surroundings_; }
  std::unique_ptr<Encoder> encoder() const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::size_t last_cut(std::string_view text) const override;

 private:
  friend class BpeEncoder;
  struct Split {
    Pattern pattern;
    bool keeps_gaps;
  };
  BpeTokenizer(std::string path, const std::string& content, TokenizerJson spec);

  std::string path_, hash_, surroundings_;
  std::vector<std::optional<std::string>> texts_;  // [vocab] text of each id
  std::array<std::int32_t, 256> bytes_;  // id of each byte; -1: dropped, as in the library
  Merges merges_;
  std::vector<Split> splits_;  // nested; the byte level's GPT-2 split is last
  bool nfc_, prefix_space_, ignore_merges_;
  std::size_t splits_before_prefix_;  // number of splits before the prefix space is added
  std::unordered_map<std::string_view, std::int32_t>
      words_;                     // keys are in texts_; with ignore_merges
  AddedTokens raw_, normalized_;  // matched before and after normalization
  bool cuts_before_spaces_ = false;
  bool lossless_ = false;
  std::int32_t end_of_document_ = -1;
};

}  // namespace trireme::data
