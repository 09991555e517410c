#include "data/bpe/bpe_encoder.h"

#include "data/utf8.h"

namespace trireme::data {

void BpeEncoder::encode(std::string_view text, bool continues, std::vector<std::int32_t>& ids) {
  ids_ = &ids;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    while (end < text.size()) {
      end += ascii_at_front(text.substr(end));
      const std::size_t size = character_size(text.substr(end));
      if (size == 0) break;
      end += size;
    }
    if (end > begin) encode_utf8(text.substr(begin, end - begin), begin == 0 && !continues);
    begin = end;
    while (end < text.size() && character_size(text.substr(end)) == 0) ++end;
    if (end > begin) encode_segment(text.substr(begin, end - begin));
    begin = end;
  }
}

void BpeEncoder::encode_utf8(std::string_view text, bool begins) {
  tokenizer_.raw_.split(text, [&](std::string_view part, std::int32_t id) {
    if (id >= 0) return ids_->push_back(id);
    const bool is_front = part.data() == text.data();
    const bool is_first = begins && is_front;
    // Text after a cut or invalid UTF-8 gets no prefix; text after a token does.
    encode_normalized(tokenizer_.normalizer_.apply(room_, part, is_front && !begins, buffer_),
                      is_first);
  });
}

void BpeEncoder::encode_normalized(std::string_view text, bool begins) {
  const PreTokenizer::Word word = [this](std::string_view found) { encode_word(found); };
  tokenizer_.normalized_.split(text, [&](std::string_view part, std::int32_t id) {
    if (id >= 0) return ids_->push_back(id);
    tokenizer_.pre_tokenizer_.split(room_, part, begins && part.data() == text.data(), word);
  });
}

void BpeEncoder::encode_word(std::string_view word) {
  if (!tokenizer_.safe_cuts_) return encode_segment(word);
  if (const auto found = tokenizer_.words_.find(word); found != tokenizer_.words_.end()) {
    return ids_->push_back(found->second);
  }
  for (std::size_t begin = 0; begin < word.size();) {
    const std::size_t end = tokenizer_.safe_cuts_->next(word, begin);
    encode_segment(word.substr(begin, end - begin));
    begin = end;
  }
}

void BpeEncoder::encode_segment(std::string_view word) {
  if (const auto found = known_.find(word)) {
    ids_->insert(ids_->end(), found->begin(), found->end());
    return;
  }
  encode_new(word);
  ids_->insert(ids_->end(), word_ids_.begin(), word_ids_.end());
  known_.add(word, word_ids_);
}

void BpeEncoder::encode_new(std::string_view word) {
  word_ids_.clear();
  if (tokenizer_.symbols_.by_byte()) {
    const auto found = tokenizer_.words_.find(word);
    if (found != tokenizer_.words_.end()) {
      word_ids_.push_back(found->second);
      return;
    }
  }
  tokenizer_.symbols_.append(word, word_ids_);
  loop_.run(word_ids_);
}

}  // namespace trireme::data
