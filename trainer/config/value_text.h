#pragma once
#include <string>
#include <string_view>

#include "trainer/config/option.h"

namespace trireme {

// A value as TOML that reads back to the same value.
std::string to_toml(const Slot& slot);
std::string to_toml(double number);
std::string to_toml(std::string_view text);  // quoted

// "gelu_new" or "silu".
std::string activation_name(ActivationKind kind);

// "at least 1", "above 0 and below 1", ...
std::string range_words(const Range& range);

// One line of printable text, cut to about `limit` bytes.
std::string shown(std::string_view text, std::size_t limit = 60);

}  // namespace trireme
