#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "data/bpe/symbols.h"
#include "data/bpe/tokenizer_json.h"

namespace trireme::data {

// Positions of a character-level BPE that no merge crosses: the parts on both sides have the ids
// that they have alone. A merge crosses a position between the last character of its left token and
// the first of its right one; other pairs of characters are safe to cut. Makes words of texts that
// no pre-tokenizer splits (Llama 2, Gemma). Thread-safe.
class SafeCuts {
 public:
  SafeCuts(const TokenizerJson& spec, const Symbols& symbols);
  // The first safe position after `from` that begins a word, which is before a mark (U+2581) or a
  // space, or at either end of newlines; text.size() if there is none. `text` is normalized.
  std::size_t next(std::string_view text, std::size_t from) const;
  bool is_safe(std::string_view before, std::string_view after) const;

 private:
  static std::uint64_t pair_of(std::string_view before, std::string_view after);
  const Symbols& symbols_;
  bool any_ = true;
  std::unordered_set<std::uint64_t> joined_;  // pairs of characters
};

}  // namespace trireme::data
