#pragma once
#include <string>
#include <string_view>

namespace trireme::data {

// Whether `text`, valid UTF-8, is certainly in NFC: it has no character at or above U+0300.
bool is_surely_nfc(std::string_view text);

// NFC of `text`, valid UTF-8, by Unicode 9 as in the tokenizers library: later characters are
// unchanged and block reordering of marks.
std::string to_nfc(std::string_view text);

}  // namespace trireme::data
