#pragma once
#include <string>
#include <string_view>

namespace trireme::data {

// The tokenizers library has Unicode 16; Debian's PCRE2 has Unicode 14, and treats U+180E as white
// space, as Unicode did until 6.3. Characters classified differently are replaced for matching by
// others of the correct general category and the same length in UTF-8.

// Whether `text`, valid UTF-8, contains such a character.
bool needs_stand_ins(std::string_view text);

// `text` with such characters replaced, at the same byte offsets; for matching only.
std::string with_stand_ins(std::string_view text);

}  // namespace trireme::data
