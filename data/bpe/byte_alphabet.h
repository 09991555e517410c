#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace trireme::data {

// GPT-2's way to write any bytes as visible text, as vocabularies of byte-level BPE are
// written: printable Latin-1 characters stand for themselves, the other 68 bytes are U+0100 and on.

// One byte as its character in UTF-8.
std::string alphabet_character(unsigned char byte);

// The bytes that `token` stands for; nothing when it holds a character of no byte.
std::optional<std::string> bytes_of_token(std::string_view token);

}  // namespace trireme::data
