#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/sentencepiece_tokenizer.h"

namespace trireme::data {

// Cuts a text into words and remembers the ids of the words it has seen, up to a bound.
class SentencePieceEncoder : public Encoder {
 public:
  explicit SentencePieceEncoder(const SentencePieceTokenizer& tokenizer) : tokenizer_(tokenizer) {}
  void encode(std::string_view text, bool continues, std::vector<std::int32_t>& ids) override;

 private:
  struct Range {
    std::uint32_t first, count;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const;
  };
  void encode_word(std::string_view word, std::vector<std::int32_t>& ids);
  void encode_new(std::string_view word, std::vector<std::int32_t>& ids) const;
  void encode_run(std::string_view run, std::vector<std::int32_t>& ids) const;
  void encode_bytes(std::string_view bytes, std::vector<std::int32_t>& ids) const;

  const SentencePieceTokenizer& tokenizer_;
  std::unordered_map<std::string, Range, Hash, std::equal_to<>> known_;
  std::vector<std::int32_t> known_ids_;
};

}  // namespace trireme::data
