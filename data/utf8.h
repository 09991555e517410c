#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace trireme::data {

// Bytes of leading ASCII, at least all but the last seven.
inline std::size_t ascii_at_front(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080u;
  std::size_t size = 0;
  for (std::uint64_t eight = 0; size + sizeof eight <= text.size(); size += sizeof eight) {
    std::memcpy(&eight, text.data() + size, sizeof eight);
    if ((eight & kHighBits) != 0) break;
  }
  return size;
}

// Size in bytes of the first character of `text` if it is well-formed UTF-8 (no overlong forms,
// surrogates or code points above U+10FFFF), otherwise 0.
inline std::size_t character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  if (text.empty()) return 0;
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return follows(1) ? 2 : 0;
  if (lead < 0xF0) {
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;   // overlong
    if (lead == 0xED && byte(1) >= 0xA0) return 0;  // surrogates
    return follows(1) && follows(2) ? 3 : 0;
  }
  if (lead == 0xF0 && byte(1) < 0x90) return 0;   // overlong
  if (lead == 0xF4 && byte(1) >= 0x90) return 0;  // above U+10FFFF
  return lead < 0xF5 && follows(1) && follows(2) && follows(3) ? 4 : 0;
}

inline constexpr std::string_view kReplacementCharacter = "\uFFFD";

// Bytes at the start of `text`, which begins no character, that one replacement character stands
// for: as many as a character could begin with ("maximal subpart", Unicode 15, section 3.9).
inline std::size_t ill_formed_size(std::string_view text) {
  constexpr std::string_view kEnds[] = {"\x80",     "\x80\x80",     "\x90\x80",
                                        "\xA0\x80", "\x80\x80\x80", "\x90\x80\x80"};
  for (std::size_t size = std::min<std::size_t>(3, text.size()); size > 1; --size) {
    for (const std::string_view end : kEnds) {
      if (character_size(std::string(text.substr(0, size)) += end) == size + end.size())
        return size;
    }
  }
  return 1;
}

// `text` with replacement characters in place of what is not well-formed, as Python decodes it.
inline std::string well_formed(std::string_view text) {
  std::string all;
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    all += size > 0 ? text.substr(0, size) : kReplacementCharacter;
    text.remove_prefix(size > 0 ? size : ill_formed_size(text));
  }
  return all;
}

// Size in bytes of the first character of `text` if it is Unicode white space, otherwise 0.
inline std::size_t white_space_size(std::string_view text) {
  constexpr std::array<std::string_view, 19> kLong{"\u0085", "\u00A0", "\u1680", "\u2000", "\u2001",
                                                   "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
                                                   "\u2007", "\u2008", "\u2009", "\u200A", "\u2028",
                                                   "\u2029", "\u202F", "\u205F", "\u3000"};
  if (text.empty()) return 0;
  if (text.front() == ' ' || (text.front() >= '\t' && text.front() <= '\r')) return 1;
  for (const std::string_view space : kLong) {
    if (text.substr(0, space.size()) == space) return space.size();
  }
  return 0;
}

// Bytes of leading white space.
inline std::size_t space_at_front(std::string_view text) {
  std::size_t size = 0;
  while (const std::size_t next = white_space_size(text.substr(size))) size += next;
  return size;
}

// Bytes of trailing white space; `text` is valid UTF-8.
inline std::size_t space_at_end(std::string_view text) {
  std::size_t begin = text.size();
  for (std::size_t at = begin; at > 0;) {
    do {
      --at;
    } while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
    if (white_space_size(text.substr(at)) == 0) break;
    begin = at;
  }
  return text.size() - begin;
}

}  // namespace trireme::data
