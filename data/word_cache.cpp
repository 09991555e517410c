#include "data/word_cache.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace trireme::data {
namespace {

constexpr std::size_t kMostWords = 1u << 19;
constexpr std::size_t kShortWord = 16, kLongestWord = 64;
constexpr std::size_t kFewIds = 3;

template <class Value>
std::uint64_t load(const char* at) {
  Value value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::size_t hash_of(std::uint64_t first, std::uint64_t second) {
  const std::uint64_t mixed = (first ^ second * 0x9E3779B97F4A7C15u) * 0xC2B2AE3D27D4EB4Fu;
  return mixed ^ mixed >> 32;
}

bool has_few_ids(std::size_t size, std::size_t count) {
  return size <= kShortWord && count <= kFewIds;
}

}  // namespace

// The two halves of a short word overlap; with its size they determine it.
WordCache::Key WordCache::key_of(std::string_view word) {
  const std::size_t size = word.size();
  const char* begin = word.data();
  const char* end = begin + size;
  if (size > kShortWord) return {XXH3_64bits(begin, size), 0};
  if (size >= 8) return {load<std::uint64_t>(begin), load<std::uint64_t>(end - 8)};
  if (size >= 4) return {load<std::uint32_t>(begin), load<std::uint32_t>(end - 4)};
  if (size >= 2) return {load<std::uint16_t>(begin), load<std::uint16_t>(end - 2)};
  return {load<std::uint8_t>(begin), 0};
}

std::size_t WordCache::slot_of(std::string_view word, const Key& key) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash_of(key.first, key.second) & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.size == 0) return at;
    if (slot.size != word.size() || slot.key != key) continue;
    if (slot.size <= kShortWord) return at;
    if (std::string_view(text_).substr(static_cast<std::size_t>(slot.ids[1]), slot.size) == word) {
      return at;
    }
  }
}

std::optional<std::span<const std::int32_t>> WordCache::find(std::string_view word) const {
  if (word.empty() || word.size() > kLongestWord) return std::nullopt;
  const Slot& slot = slots_[slot_of(word, key_of(word))];
  if (slot.size == 0) return std::nullopt;
  if (has_few_ids(slot.size, slot.count)) return std::span(slot.ids).first(slot.count);
  return std::span(ids_).subspan(static_cast<std::size_t>(slot.ids[0]), slot.count);
}

void WordCache::add(std::string_view word, std::span<const std::int32_t> ids) {
  if (word.empty() || word.size() > kLongestWord || ids.size() > 4 * kLongestWord) return;
  if (used_ >= kMostWords) *this = WordCache();
  if (2 * used_ >= slots_.size()) grow();
  const Key key = key_of(word);
  Slot& slot = slots_[slot_of(word, key)];
  slot.key = key;
  slot.size = static_cast<std::uint16_t>(word.size());
  slot.count = static_cast<std::uint16_t>(ids.size());
  if (has_few_ids(word.size(), ids.size())) {
    std::copy(ids.begin(), ids.end(), slot.ids.begin());
  } else {
    slot.ids[0] = static_cast<std::int32_t>(ids_.size());
    slot.ids[1] = static_cast<std::int32_t>(text_.size());
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    if (word.size() > kShortWord) text_ += word;
  }
  ++used_;
}

void WordCache::grow() {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.size == 0) continue;
    std::size_t at = hash_of(slot.key.first, slot.key.second) & mask;
    while (slots_[at].size != 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

}  // namespace trireme::data
