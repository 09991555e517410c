#pragma once
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// Insertions, deletions, replacements and swaps of neighbors that lead from a to b.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate a mistyped word most likely meant; empty when none is near enough to
// be a help. A tie goes to the earlier candidate.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// The same of a key's values: first the one that differs in the case of letters alone, or goes by
// this name elsewhere ("fp16" for "float16").
std::string nearest_value(std::string_view word, std::span<const std::string> candidates);

}  // namespace trireme
