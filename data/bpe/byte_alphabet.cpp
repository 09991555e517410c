#include "data/bpe/byte_alphabet.h"

#include <array>
#include <cstdint>

namespace trireme::data {
namespace {

constexpr int kCharacters = 0x144;  // after the last character that encodes a byte

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<std::int16_t, 256> make_characters() {
  std::array<std::int16_t, 256> characters{};
  std::int16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    characters[byte] = stands_for_itself(byte) ? static_cast<std::int16_t>(byte) : next++;
  }
  return characters;
}
constexpr std::array<std::int16_t, 256> kCharacterOf = make_characters();

constexpr std::array<std::int16_t, kCharacters> make_bytes() {
  std::array<std::int16_t, kCharacters> bytes{};
  for (std::int16_t& byte : bytes) byte = -1;
  for (int byte = 0; byte < 256; ++byte) {
    bytes[kCharacterOf[byte]] = static_cast<std::int16_t>(byte);
  }
  return bytes;
}
constexpr std::array<std::int16_t, kCharacters> kByteOf = make_bytes();

}  // namespace

std::string alphabet_character(unsigned char byte) {
  const int character = kCharacterOf[byte];
  if (character < 0x80) return {static_cast<char>(character)};
  return {static_cast<char>(0xC0 | character >> 6), static_cast<char>(0x80 | (character & 63))};
}

std::optional<std::string> bytes_of_token(std::string_view token) {
  std::string bytes;
  for (std::size_t i = 0; i < token.size(); ++i) {
    int character = static_cast<unsigned char>(token[i]);
    if (character >= 0x80) {
      const bool pair = character >= 0xC2 && character < 0xE0 && i + 1 < token.size();
      if (!pair) return std::nullopt;
      character = (character & 31) << 6 | (static_cast<unsigned char>(token[++i]) & 63);
    }
    if (character >= kCharacters || kByteOf[character] < 0) return std::nullopt;
    bytes += static_cast<char>(kByteOf[character]);
  }
  return bytes;
}

}  // namespace trireme::data
