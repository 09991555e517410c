#include "data/bpe/bpe_encoder.h"

#include <string>

#include "data/bpe/later_unicode.h"
#include "data/bpe/normal_form.h"
#include "data/utf8.h"

namespace trireme::data {

void BpeEncoder::encode(std::string_view text, bool /*continues*/, std::vector<std::int32_t>& ids) {
  ids_ = &ids;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    while (end < text.size()) {
      const std::size_t size = character_size(text.substr(end));
      if (size == 0) break;
      end += size;
    }
    if (end > begin) encode_utf8(text.substr(begin, end - begin));
    begin = end;
    while (end < text.size() && character_size(text.substr(end)) == 0) ++end;
    if (end > begin) encode_word(text.substr(begin, end - begin));
    begin = end;
  }
}

void BpeEncoder::encode_utf8(std::string_view text) {
  tokenizer_.raw_.split(text, [&](std::string_view part, std::int32_t id) {
    if (id >= 0) return ids_->push_back(id);
    if (!tokenizer_.nfc_ || is_surely_nfc(part)) return encode_normalized(part);
    const std::string normal = to_nfc(part);
    encode_normalized(normal);
  });
}

void BpeEncoder::encode_normalized(std::string_view text) {
  tokenizer_.normalized_.split(text, [&](std::string_view part, std::int32_t id) {
    if (id >= 0) return ids_->push_back(id);
    encode_part(part);
  });
}

void BpeEncoder::encode_part(std::string_view part) {
  if (!needs_stand_ins(part)) return split(0, part, part);
  const std::string likeness = with_stand_ins(part);
  split(0, part, likeness);
}

void BpeEncoder::split(std::size_t stage, std::string_view part, std::string_view likeness) {
  if (stage == tokenizer_.splits_before_prefix_ && tokenizer_.prefix_space_ &&
      part.front() != ' ') {
    const std::string prefixed = ' ' + std::string(part);
    const std::string prefixed_likeness = ' ' + std::string(likeness);
    if (stage == tokenizer_.splits_.size()) return encode_word(prefixed);
    return split(stage, prefixed, prefixed_likeness);
  }
  if (stage == tokenizer_.splits_.size()) return encode_word(part);
  const BpeTokenizer::Split& rule = tokenizer_.splits_[stage];
  const bool last = stage + 1 == tokenizer_.splits_.size() &&
                    (stage >= tokenizer_.splits_before_prefix_ || !tokenizer_.prefix_space_);
  const auto deeper = [&](std::size_t begin, std::size_t end) {
    const std::string_view inner = part.substr(begin, end - begin);
    if (last) return encode_word(inner);
    split(stage + 1, inner, likeness.substr(begin, end - begin));
  };
  std::size_t done = 0;
  while (const auto match = rule.pattern.find(room_, likeness, done)) {
    if (match->begin > done && rule.keeps_gaps) deeper(done, match->begin);
    deeper(match->begin, match->end);
    done = match->end;
  }
  if (done < part.size() && rule.keeps_gaps) deeper(done, part.size());
}

void BpeEncoder::encode_word(std::string_view word) {
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
  if (tokenizer_.ignore_merges_) {
    const auto found = tokenizer_.words_.find(word);
    if (found != tokenizer_.words_.end()) {
      word_ids_.push_back(found->second);
      return;
    }
  }
  for (const char c : word) {
    const std::int32_t id = tokenizer_.bytes_[static_cast<unsigned char>(c)];
    if (id >= 0) word_ids_.push_back(id);
  }
  loop_.run(word_ids_);
}

}  // namespace trireme::data
