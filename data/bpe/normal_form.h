#pragma once
#include <string>
#include <string_view>

namespace trireme::data {

// Whether `text`, valid UTF-8, is surely in Unicode's normal form C: it has nothing at or above
// U+0300.
bool is_surely_nfc(std::string_view text);

// Normal form C of `text`, which is valid UTF-8, by Unicode 9 as in Hugging Face's library: what
// came later stays where it is, and marks do not move across it.
std::string to_nfc(std::string_view text);

}  // namespace trireme::data
