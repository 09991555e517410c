#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/bpe/bpe_tokenizer.h"
#include "data/word_cache.h"

namespace trireme::data {

// Splits a text in stages: valid UTF-8 ranges, added tokens of the raw text, normalization, added
// tokens of the normalized text, pre-tokenizer splits, words.
class BpeEncoder : public Encoder {
 public:
  explicit BpeEncoder(const BpeTokenizer& tokenizer)
      : tokenizer_(tokenizer), loop_(tokenizer.merges_) {}
  void encode(std::string_view text, bool continues, std::vector<std::int32_t>& ids) override;

 private:
  // `begins`: at the begin of the document.
  void encode_utf8(std::string_view text, bool begins);
  void encode_normalized(std::string_view text, bool begins);
  void encode_word(std::string_view word);
  void encode_segment(std::string_view word);
  void encode_new(std::string_view word);

  const BpeTokenizer& tokenizer_;
  WordCache known_;
  MatchRoom room_;
  MergeLoop loop_;
  std::string buffer_;  // a normalized part
  std::vector<std::int32_t> word_ids_;
  std::vector<std::int32_t>* ids_ = nullptr;  // output of the current call
};

}  // namespace trireme::data
