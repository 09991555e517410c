#include "data/bpe/symbols.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "data/utf8.h"

namespace trireme::data {

int byte_of_token(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token.back() != '>') return -1;
  unsigned value = 0;
  const auto [end, fault] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  return fault == std::errc() && end == token.data() + 5 ? static_cast<int>(value) : -1;
}

Symbols::Symbols(SymbolsSpec spec)
    : spec_(std::move(spec)),
      has_all_bytes_(std::find(spec_.bytes.begin(), spec_.bytes.end(), -1) == spec_.bytes.end()) {
  for (std::size_t c = 0; c < ascii_.size(); ++c) {
    const auto found = spec_.characters.find(std::string(1, static_cast<char>(c)));
    ascii_[c] = found == spec_.characters.end() ? -1 : found->second;
  }
}

std::int32_t Symbols::id_of(std::string_view character) const {
  if (character.size() == 1) return ascii_[static_cast<unsigned char>(character.front())];
  const auto found = spec_.characters.find(std::string(character));
  return found == spec_.characters.end() ? -1 : found->second;
}

void Symbols::append(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (!spec_.by_byte) return append_characters(word, ids);
  for (const char c : word) {
    const std::int32_t id = spec_.bytes[static_cast<unsigned char>(c)];
    if (id >= 0) ids.push_back(id);
  }
}

void Symbols::append_characters(std::string_view word, std::vector<std::int32_t>& ids) const {
  // The library keeps an unknown character until the next known one, so that characters spelled in
  // bytes go before it.
  bool pending = false;
  const auto flush = [&] {
    if (std::exchange(pending, false)) ids.push_back(spec_.unknown);
  };
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t valid = character_size(word.substr(at));
    const std::string_view character = word.substr(at, std::max<std::size_t>(valid, 1));
    at += character.size();
    if (const std::int32_t id = valid == 0 ? -1 : id_of(character); id >= 0) {
      flush();
      ids.push_back(id);
      continue;
    }
    const auto id_of_byte = [&](char c) { return spec_.bytes[static_cast<unsigned char>(c)]; };
    const bool spelled =
        std::all_of(character.begin(), character.end(), [&](char c) { return id_of_byte(c) >= 0; });
    if (spelled) {
      for (const char c : character) ids.push_back(id_of_byte(c));
    } else if (spec_.unknown >= 0) {
      if (!spec_.fuses_unknown) flush();
      pending = true;
    }
  }
  flush();
}

}  // namespace trireme::data
