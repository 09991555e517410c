#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// A line of a chained file, without the newline: a JSON object whose last key, "chain", is the XXH3
// of the preceding text, seeded with the chain of the previous line (0 for the first), so that
// changed, missing and reordered lines are detected. It detects damage; it is not a signature.
struct ChainedText {
  std::string text;
  std::uint64_t chain = 0;
};
// Appends the chain to a non-empty JSON object.
ChainedText chained(std::string object, std::uint64_t chain_before);

// The chain at the end of the line; nothing if it has none.
std::optional<std::uint64_t> chain_of(std::string_view text);
// Whether the line is unchanged and follows a line with chain `chain_before`.
bool follows(std::string_view text, std::uint64_t chain_before);

}  // namespace trireme
