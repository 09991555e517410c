#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trireme::data {

// 10 for "<0x0A>", the token of a byte; -1: another token.
int byte_of_token(std::string_view token);

// What a word is before its merges: ids of bytes, or of characters with a fallback.
struct SymbolsSpec {
  bool by_byte = false;
  // Ids of single bytes, or of the tokens "<0xNN>" of a byte fallback; -1: none.
  std::array<std::int32_t, 256> bytes{};
  std::unordered_map<std::string, std::int32_t> characters{};  // ids of single characters
  std::int32_t unknown = -1;   // unk_token; -1: unknown characters are dropped
  bool fuses_unknown = false;  // consecutive unknown characters are one token
};

// Thread-safe.
class Symbols {
 public:
  explicit Symbols(SymbolsSpec spec);
  // Appends the ids of `word`, as the tokenizers library where it is valid UTF-8; other bytes have
  // the ids of their byte tokens.
  void append(std::string_view word, std::vector<std::int32_t>& ids) const;
  bool by_byte() const { return spec_.by_byte; }
  bool has_all_bytes() const { return has_all_bytes_; }
  bool may_drop() const { return !has_all_bytes_ && spec_.unknown < 0; }
  bool has(std::string_view character) const { return id_of(character) >= 0; }

 private:
  void append_characters(std::string_view word, std::vector<std::int32_t>& ids) const;
  std::int32_t id_of(std::string_view character) const;

  SymbolsSpec spec_;
  std::array<std::int32_t, 128> ascii_{};
  bool has_all_bytes_;
};

}  // namespace trireme::data
