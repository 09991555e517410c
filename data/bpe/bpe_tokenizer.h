#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/bpe/added_tokens.h"
#include "data/bpe/decoder.h"
#include "data/bpe/merges.h"
#include "data/bpe/normalizer.h"
#include "data/bpe/pre_tokenizer.h"
#include "data/bpe/safe_cuts.h"
#include "data/bpe/symbols.h"
#include "data/bpe/tokenizer_json.h"
#include "data/tokenizer.h"

namespace trireme::data {

// A BPE from a Hugging Face tokenizer.json: byte-level as of GPT-2, Llama 3 and Qwen, or of
// characters with a fallback to bytes as of Llama 2, Mistral, Gemma and Phi-3; or from a tiktoken
// file (tiktoken.h).
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
  enum class Format { kTokenizerJson, kTiktoken };
  // `content` is that of the file at `path`. Throws DataError naming unsupported features.
  BpeTokenizer(const std::string& path, const std::string& content,
               Format format = Format::kTokenizerJson);
  BpeTokenizer(const BpeTokenizer&) = delete;
  BpeTokenizer& operator=(const BpeTokenizer&) = delete;

  std::string name() const override {
    return format_ == Format::kTiktoken ? "tiktoken" : "tokenizer.json";
  }
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
  BpeTokenizer(std::string path, const std::string& content, Format format, TokenizerJson spec);
  // Whether a text may be cut between an ASCII character other than white space and a space.
  bool may_cut(std::string_view before) const;

  Format format_;
  std::string path_, hash_, surroundings_;
  std::vector<std::optional<std::string>> texts_;  // [vocab] text of each id
  Symbols symbols_;
  Merges merges_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  std::optional<SafeCuts> safe_cuts_;  // of characters
  std::optional<Decoder> decoder_;     // of characters; bytes are their own text
  std::unordered_map<std::string_view, std::int32_t>
      words_;                       // keys are in texts_; with ignore_merges
  AddedTokens raw_, normalized_;    // matched before and after normalization
  std::vector<std::string> added_;  // contents
  std::string space_;               // normalized form of a space within a text
  bool cuts_before_spaces_ = false;
  bool lossless_ = false;
  std::int32_t end_of_document_ = -1;
};

}  // namespace trireme::data
