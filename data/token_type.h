#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace trireme::data {

// Integer types of token files, by Megatron's codes: do not change. (Codes 6 and 7 are
// floating-point types.)
enum class TokenType : std::uint8_t {
  kU8 = 1,
  kI8 = 2,
  kI16 = 3,
  kI32 = 4,
  kI64 = 5,
  kU16 = 8,
};

constexpr bool is_token_type(std::uint8_t code) {
  return (code >= 1 && code <= 5) || code == 8;
}

constexpr std::size_t size_of(TokenType type) {
  switch (type) {
    case TokenType::kU8:
    case TokenType::kI8:
      return 1;
    case TokenType::kI16:
    case TokenType::kU16:
      return 2;
    case TokenType::kI32:
      return 4;
    case TokenType::kI64:
      return 8;
  }
  return 0;
}

constexpr std::string_view name_of(TokenType type) {
  switch (type) {
    case TokenType::kU8:
      return "uint8";
    case TokenType::kI8:
      return "int8";
    case TokenType::kI16:
      return "int16";
    case TokenType::kI32:
      return "int32";
    case TokenType::kI64:
      return "int64";
    case TokenType::kU16:
      return "uint16";
  }
  return "?";
}

// Reads a value at a possibly unaligned address.
template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Calls `body` with a zero of the C++ type.
template <class Body>
decltype(auto) with_token_type(TokenType type, Body&& body) {
  switch (type) {
    case TokenType::kU8:
      return body(std::uint8_t{});
    case TokenType::kI8:
      return body(std::int8_t{});
    case TokenType::kI16:
      return body(std::int16_t{});
    case TokenType::kI64:
      return body(std::int64_t{});
    case TokenType::kU16:
      return body(std::uint16_t{});
    case TokenType::kI32:
      break;
  }
  return body(std::int32_t{});
}

// Megatron's rule, so that its readers expect the type we write.
constexpr TokenType smallest_type(std::int64_t vocab_size) {
  return vocab_size < 65500 ? TokenType::kU16 : TokenType::kI32;
}

}  // namespace trireme::data
