#include "data/bpe/added_tokens.h"

#include <algorithm>
#include <utility>

#include "data/utf8.h"

namespace trireme::data {
namespace {

unsigned char first_of(const AddedToken& token) {
  return static_cast<unsigned char>(token.content.front());
}

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    if (first_of(a) != first_of(b)) return first_of(a) < first_of(b);
    return a.content.size() > b.content.size();
  });
  for (std::uint32_t i = 0; i < tokens_.size(); ++i) {
    const std::string& content = tokens_[i].content;
    Bucket& bucket = buckets_[first_of(tokens_[i])];
    is_first_byte_[first_of(tokens_[i])] = true;
    if (bucket.end == 0) bucket = {.begin = i, .end = i, .common = content};
    bucket.end = i + 1;
    const auto differ =
        std::mismatch(bucket.common.begin(), bucket.common.end(), content.begin(), content.end());
    bucket.common.erase(differ.first, bucket.common.end());
  }
}

const AddedToken* AddedTokens::at(std::string_view text) const {
  const Bucket& bucket = buckets_[static_cast<unsigned char>(text.front())];
  if (!starts_with(text, bucket.common)) return nullptr;
  const auto found =
      std::find_if(tokens_.begin() + bucket.begin, tokens_.begin() + bucket.end,
                   [&](const AddedToken& token) { return starts_with(text, token.content); });
  return found == tokens_.begin() + bucket.end ? nullptr : &*found;
}

void AddedTokens::split(
    std::string_view text,
    const std::function<void(std::string_view part, std::int32_t id)>& part) const {
  std::size_t told = 0;
  for (std::size_t i = 0; i < text.size() && !tokens_.empty();) {
    if (!is_first_byte_[static_cast<unsigned char>(text[i])]) {
      ++i;
      continue;
    }
    const AddedToken* token = at(text.substr(i));
    if (token == nullptr) {
      ++i;
      continue;
    }
    std::size_t begin = i;
    std::size_t end = i += token->content.size();
    // White space consumed by the previous token is not consumed twice.
    if (token->takes_left) begin = std::max(begin - space_at_end(text.substr(0, begin)), told);
    if (token->takes_right) end += space_at_front(text.substr(end));
    if (told < begin) part(text.substr(told, begin - told), -1);
    part(text.substr(begin, end - begin), token->id);
    told = end;
  }
  if (told < text.size()) part(text.substr(told), -1);
}

}  // namespace trireme::data
