#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "data/bpe/pattern.h"

namespace trireme::data {

// Replaces every match of a pattern by a fixed text: the "Replace" of normalizers and decoders.
// Thread-safe.
class Replacement {
 public:
  // Throws DataError for a pattern that Pattern refuses.
  Replacement(const PatternSpec& pattern, std::string content);
  std::string apply(MatchRoom& room, std::string_view text) const;  // `text` is valid UTF-8

 private:
  std::string literal_;  // empty: the regular expression
  std::optional<Pattern> regex_;
  std::string content_;
};

}  // namespace trireme::data
