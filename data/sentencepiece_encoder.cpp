#include "data/sentencepiece_encoder.h"

#include <span>

#include "data/utf8.h"

namespace trireme::data {
namespace {

// Leading bytes that the library would not reproduce: U+2581 or invalid UTF-8.
std::size_t foreign_size(std::string_view text) {
  if (text.substr(0, kSpaceMark.size()) == kSpaceMark) return kSpaceMark.size();
  return !text.empty() && character_size(text) == 0 ? 1 : 0;
}

}  // namespace

void SentencePieceEncoder::encode(std::string_view text, bool continues,
                                  std::vector<std::int32_t>& ids) {
  const bool prefixed = tokenizer_.kind_ == SentencePieceTokenizer::Kind::kPrefixed;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin + 1;
    while (end < text.size() && !tokenizer_.may_cut(text[end - 1], text[end])) ++end;
    std::string_view word = text.substr(begin, end - begin);
    // The library adds a space before each word it gets; within a text this replaces the word's own
    // first space.
    if (prefixed && (begin > 0 || continues)) word.remove_prefix(1);
    if (word.empty()) {
      ids.push_back(tokenizer_.space_);
    } else {
      encode_word(word, ids);
    }
    begin = end;
  }
}

void SentencePieceEncoder::encode_word(std::string_view word, std::vector<std::int32_t>& ids) {
  if (const auto found = known_.find(word)) {
    ids.insert(ids.end(), found->begin(), found->end());
    return;
  }
  const std::size_t before = ids.size();
  encode_new(word, ids);
  known_.add(word, std::span(ids).subspan(before));
}

void SentencePieceEncoder::encode_new(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (!tokenizer_.lossless()) {
    const std::vector<int> whole = tokenizer_.library_encode(word);
    ids.insert(ids.end(), whole.begin(), whole.end());
    return;
  }
  while (!word.empty()) {
    std::size_t run = 0;
    while (run < word.size() && foreign_size(word.substr(run)) == 0) {
      run += character_size(word.substr(run));
    }
    encode_run(word.substr(0, run), ids);
    word.remove_prefix(run);
    const std::size_t foreign = foreign_size(word);
    encode_bytes(word.substr(0, foreign), ids);
    word.remove_prefix(foreign);
  }
}

void SentencePieceEncoder::encode_run(std::string_view run, std::vector<std::int32_t>& ids) const {
  if (run.empty()) return;
  const std::vector<int> pieces = tokenizer_.library_encode(run);
  // Verified for every text, whatever a model's normalizer does.
  if (tokenizer_.spell(pieces) == run) {
    ids.insert(ids.end(), pieces.begin(), pieces.end());
  } else {
    encode_bytes(run, ids);
  }
}

void SentencePieceEncoder::encode_bytes(std::string_view bytes,
                                        std::vector<std::int32_t>& ids) const {
  for (const char byte : bytes) ids.push_back(tokenizer_.bytes_[static_cast<unsigned char>(byte)]);
}

}  // namespace trireme::data
