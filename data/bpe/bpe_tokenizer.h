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

// A byte-level BPE from Hugging Face's tokenizer.json: GPT-2, Llama 3, Qwen and their kin.
//
// Ids are those of the library's encode(text, add_special_tokens=False): added tokens, special
// ones too, are found in the text, but nothing is put around it. Bytes that are
// not UTF-8, which the library does not take, are words of their own.
//
// Documents end with the eos_token of tokenizer_config.json or special_tokens_map.json beside the
// file, by the id that added_tokens_decoder gives it where tokenizer.json does not know it; without
// one with the first of the usual names (<|endoftext|>, <|end_of_text|>, </s>, <eos>) that is an
// added token.
class BpeTokenizer : public Tokenizer {
 public:
  // `content` of the file at `path`. Throws DataError naming what is not implemented.
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
  std::vector<std::optional<std::string>> texts_;  // [vocab] what each id stands for
  std::array<std::int32_t, 256> bytes_;            // -1: left out, as the library does
  Merges merges_;
  std::vector<Split> splits_;  // one inside the other; GPT-2's of the byte level comes last
  bool nfc_, prefix_space_, ignore_merges_;
  std::size_t splits_before_prefix_;  // splits_ that come before the prefix space is put
  std::unordered_map<std::string_view, std::int32_t> words_;  // in texts_; with ignore_merges
  AddedTokens raw_, normalized_;  // looked for before and after the normalization
  bool cuts_before_spaces_ = false;
  bool lossless_ = false;
  std::int32_t end_of_document_ = -1;
};

}  // namespace trireme::data
