#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/bpe/bpe_tokenizer.h"
#include "data/word_cache.h"

namespace trireme::data {

// A text goes through stages, each cutting what the one before made: runs of UTF-8, added tokens
// of the raw text, normalization, added tokens of the normalized text, the splits, and words.
class BpeEncoder : public Encoder {
 public:
  explicit BpeEncoder(const BpeTokenizer& tokenizer)
      : tokenizer_(tokenizer), loop_(tokenizer.merges_) {}
  void encode(std::string_view text, bool continues, std::vector<std::int32_t>& ids) override;

 private:
  void encode_utf8(std::string_view text);
  void encode_normalized(std::string_view text);
  void encode_part(std::string_view part);
  // `likeness` is what the patterns see of `part`, byte for byte as long.
  void split(std::size_t stage, std::string_view part, std::string_view likeness);
  void encode_word(std::string_view word);
  void encode_new(std::string_view word);

  const BpeTokenizer& tokenizer_;
  WordCache known_;
  MatchRoom room_;
  MergeLoop loop_;
  std::vector<std::int32_t> word_ids_;
  std::vector<std::int32_t>* ids_ = nullptr;  // of the call
};

}  // namespace trireme::data
