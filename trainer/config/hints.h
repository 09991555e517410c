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

// Hint after "unknown key": the likely key, also if given by its name in another trainer, or a
// known feature that is not implemented. `dashes` is prepended to keys.
// "; did you mean training.steps?"
std::string hint_for_key(const std::string& section, const std::string& name,
                         const std::string& dashes = "");

// "; did you mean [training]?", or for an empty name where all keys are listed.
std::string did_you_mean(const std::string& near);

}  // namespace trireme
