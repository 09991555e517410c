#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// A line of a file of such lines, without the newline: a JSON object whose last key, "chain", is
// the XXH3 of the text before it, keyed by the chain of the line before (0 for the first), so that
// a line that was changed, lost or moved shows. It finds damage; it is no signature.
struct ChainedText {
  std::string text;
  std::uint64_t chain = 0;
};
// Of a JSON object that is not empty.
ChainedText chained(std::string object, std::uint64_t chain_before);

// The chain such a line ends with; nothing when it is none.
std::optional<std::uint64_t> chain_of(std::string_view text);
// Whether the line is as it was written, after a line with that chain.
bool follows(std::string_view text, std::uint64_t chain_before);

// 16 hex digits, and back; nothing where that is not what they are.
std::string chain_text(std::uint64_t bits);
std::optional<std::uint64_t> chain_from(std::string_view text);

}  // namespace trireme
