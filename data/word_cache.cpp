#include "data/word_cache.h"

#include <xxhash.h>

#include <utility>

namespace trireme::data {
namespace {

constexpr std::size_t kMostWords = 1u << 19;
constexpr std::size_t kLongestWord = 64;

}  // namespace

std::size_t WordCache::slot_of(std::string_view word, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.size == 0) return at;
    if (slot.hash == hash && std::string_view(text_).substr(slot.text, slot.size) == word) {
      return at;
    }
  }
}

std::optional<std::span<const std::int32_t>> WordCache::find(std::string_view word) const {
  if (word.empty() || word.size() > kLongestWord) return std::nullopt;
  const Slot& slot = slots_[slot_of(word, XXH3_64bits(word.data(), word.size()))];
  if (slot.size == 0) return std::nullopt;
  return std::span(ids_).subspan(slot.first, slot.count);
}

void WordCache::add(std::string_view word, std::span<const std::int32_t> ids) {
  if (word.empty() || word.size() > kLongestWord || ids.size() > 4 * kLongestWord) return;
  if (used_ >= kMostWords) *this = WordCache();
  if (2 * used_ >= slots_.size()) grow();
  const std::uint64_t hash = XXH3_64bits(word.data(), word.size());
  slots_[slot_of(word, hash)] = {.hash = hash,
                                 .text = static_cast<std::uint32_t>(text_.size()),
                                 .first = static_cast<std::uint32_t>(ids_.size()),
                                 .size = static_cast<std::uint16_t>(word.size()),
                                 .count = static_cast<std::uint16_t>(ids.size())};
  text_ += word;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  ++used_;
}

void WordCache::grow() {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.size == 0) continue;
    std::size_t at = slot.hash & mask;
    while (slots_[at].size != 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

}  // namespace trireme::data
