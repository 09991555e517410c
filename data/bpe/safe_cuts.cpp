#include "data/bpe/safe_cuts.h"

#include <algorithm>

#include "data/utf8.h"

namespace trireme::data {
namespace {

constexpr std::string_view kMark = "\u2581";

std::string_view first_character(std::string_view text) {
  return text.substr(0, std::max<std::size_t>(character_size(text), 1));
}

std::string_view last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return text.substr(at);
}

std::uint32_t packed(std::string_view character) {
  std::uint32_t value = 0;
  for (const char c : character.substr(0, 4)) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

}  // namespace

SafeCuts::SafeCuts(const TokenizerJson& spec, const Symbols& symbols) : symbols_(symbols) {
  std::vector<bool> fallback(spec.texts.size());
  for (std::size_t id = 0; id < fallback.size(); ++id) {
    fallback[id] = !spec.texts[id] || spec.texts[id]->empty();
  }
  if (spec.symbols.unknown >= 0) fallback[spec.symbols.unknown] = true;
  for (const std::int32_t id : spec.symbols.bytes) {
    if (id >= 0) fallback[id] = true;
  }
  for (const TokenizerJson::Merge& merge : spec.merges) {
    // The text of such a token is not the text it stands for.
    any_ = any_ && !fallback[merge.left] && !fallback[merge.right];
    if (!any_) return;
    joined_.insert(pair_of(last_character(*spec.texts[merge.left]),
                           first_character(*spec.texts[merge.right])));
  }
}

std::uint64_t SafeCuts::pair_of(std::string_view before, std::string_view after) {
  return std::uint64_t{packed(before)} << 32 | packed(after);
}

bool SafeCuts::is_safe(std::string_view before, std::string_view after) const {
  if (!any_) return false;
  if (!symbols_.has_all_bytes()) {
    // An unknown character may be dropped, which makes others neighbors, or kept until the next
    // known one.
    const bool known = symbols_.has(before), known_after = symbols_.has(after);
    if (symbols_.may_drop() ? !known || !known_after : !known && !known_after) return false;
  }
  return joined_.count(pair_of(before, after)) == 0;
}

std::size_t SafeCuts::next(std::string_view text, std::size_t from) const {
  if (!any_) return text.size();
  bool after_mark = text.substr(from, kMark.size()) == kMark;
  for (std::size_t at = from + 1; at < text.size(); ++at) {
    const char before = text[at - 1], after = text[at];
    if ((static_cast<unsigned char>(after) & 0xC0) == 0x80) continue;
    const bool at_mark = after == kMark.front() && text.substr(at, kMark.size()) == kMark;
    const bool begins = (at_mark && !after_mark) || (after == ' ' && before != ' ') ||
                        (after == '\n') != (before == '\n');
    after_mark = at_mark;
    if (begins && is_safe(last_character(text.substr(0, at)), first_character(text.substr(at)))) {
      return at;
    }
  }
  return text.size();
}

}  // namespace trireme::data
