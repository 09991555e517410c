#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/sentencepiece_tokenizer.h"
#include "data/word_cache.h"

namespace trireme::data {

// Splits a text into words and caches the ids of a bounded number of words.
class SentencePieceEncoder : public Encoder {
 public:
  explicit SentencePieceEncoder(const SentencePieceTokenizer& tokenizer) : tokenizer_(tokenizer) {}
  void encode(std::string_view text, bool continues, std::vector<std::int32_t>& ids) override;

 private:
  void encode_word(std::string_view word, std::vector<std::int32_t>& ids);
  void encode_new(std::string_view word, std::vector<std::int32_t>& ids) const;
  void encode_run(std::string_view run, std::vector<std::int32_t>& ids) const;
  void encode_bytes(std::string_view bytes, std::vector<std::int32_t>& ids) const;

  const SentencePieceTokenizer& tokenizer_;
  WordCache known_;
};

}  // namespace trireme::data
