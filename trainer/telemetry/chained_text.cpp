#include "trainer/telemetry/chained_text.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "model/base/hex.h"

namespace trireme {
namespace {

constexpr std::string_view kChain = ",\"chain\":\"", kEnd = "\"}";
constexpr std::size_t kDigits = 16;
constexpr std::size_t kTail = kChain.size() + kDigits + kEnd.size();

}  // namespace

ChainedText chained(std::string object, std::uint64_t chain_before) {
  object.pop_back();  // the closing brace
  const std::uint64_t chain = XXH3_64bits_withSeed(object.data(), object.size(), chain_before);
  object.append(kChain).append(hex(chain)).append(kEnd);
  return {std::move(object), chain};
}

std::optional<std::uint64_t> chain_of(std::string_view text) {
  if (text.size() < kTail || !text.ends_with(kEnd)) return std::nullopt;
  const std::string_view tail = text.substr(text.size() - kTail);
  if (!tail.starts_with(kChain)) return std::nullopt;
  return from_hex<std::uint64_t>(tail.substr(kChain.size(), kDigits));
}

bool follows(std::string_view text, std::uint64_t chain_before) {
  const std::optional<std::uint64_t> chain = chain_of(text);
  return chain == XXH3_64bits_withSeed(text.data(), text.size() - std::min(kTail, text.size()),
                                       chain_before);
}

}  // namespace trireme
