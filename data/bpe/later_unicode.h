#pragma once
#include <string>
#include <string_view>

namespace trireme::data {

// Hugging Face's library knows Unicode 16; Debian's PCRE2 knows Unicode 14, and takes U+180E for
// white space as Unicode did until 6.3. Characters that they class differently are matched by
// another of the same general category and the same length in UTF-8.

// Whether `text`, valid UTF-8, holds such a character.
bool needs_stand_ins(std::string_view text);

// `text` with their stand-ins, byte for byte as long; for matching only.
std::string with_stand_ins(std::string_view text);

}  // namespace trireme::data
