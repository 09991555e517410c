#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace trireme::data {

// GPT-2's encoding of bytes as printable characters, used by vocabularies of byte-level BPE:
// printable Latin-1 characters encode themselves, the other 68 bytes are U+0100 and up.

// The character of a byte, in UTF-8.
std::string alphabet_character(unsigned char byte);

// The bytes that `token` encodes; nullopt if it has a character outside the encoding.
std::optional<std::string> bytes_of_token(std::string_view token);

}  // namespace trireme::data
