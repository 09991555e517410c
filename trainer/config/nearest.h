#pragma once
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// Edit distance with insertions, deletions, replacements and swaps of neighbors.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate closest to a mistyped word, or "" if none is close. Ties go to the earlier one.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// The same for values of a key; prefers a value that differs only in case or is an alias in other
// trainers ("fp16" for "float16").
std::string nearest_value(std::string_view word, std::span<const std::string> candidates);

}  // namespace trireme
