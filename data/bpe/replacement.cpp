#include "data/bpe/replacement.h"

#include <algorithm>
#include <utility>

#include "data/bpe/later_unicode.h"
#include "model/base/error.h"

namespace trireme::data {

Replacement::Replacement(const PatternSpec& pattern, std::string content)
    : content_(std::move(content)) {
  if (pattern.text.empty()) throw DataError("the pattern \"\" can match the empty text");
  if (pattern.kind == Pattern::Kind::kRegex) {
    regex_.emplace(pattern.text, pattern.kind);
  } else {
    literal_ = pattern.text;
  }
}

std::string Replacement::apply(MatchRoom& room, std::string_view text) const {
  std::string made;
  made.reserve(text.size() + text.size() / 2);
  std::size_t done = 0;
  const auto replace = [&](std::size_t begin, std::size_t end) {
    made += text.substr(done, begin - done);
    made += content_;
    done = end;
  };
  if (regex_) {
    const std::string likeness = with_stand_ins(text);
    while (const auto match = regex_->find(room, likeness, done)) replace(match->begin, match->end);
  } else {
    for (std::size_t at = text.find(literal_); at != std::string_view::npos;
         at = text.find(literal_, done)) {
      replace(at, at + literal_.size());
    }
  }
  made += text.substr(done);
  return made;
}

}  // namespace trireme::data
