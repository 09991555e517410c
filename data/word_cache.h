#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::data {

// The ids of words that an encoder has seen. A full cache is cleared; long words are not cached, as
// they rarely repeat.
//
// Most words have at most 16 bytes and 3 ids: these are in the slot itself, so that a hit reads one
// cache line.
class WordCache {
 public:
  WordCache() : slots_(kFirstSlots) {}
  // Valid until the next add().
  std::optional<std::span<const std::int32_t>> find(std::string_view word) const;
  void add(std::string_view word, std::span<const std::int32_t> ids);

 private:
  static constexpr std::size_t kFirstSlots = 1u << 12;
  struct Key {
    std::uint64_t first, second;  // the bytes of a short word, otherwise its hash and 0
    bool operator==(const Key&) const = default;
  };
  struct alignas(32) Slot {
    Key key;
    std::uint16_t size = 0;  // length of the word; 0: unused slot
    std::uint16_t count;     // number of ids
    // The ids, or their offset in ids_ and, of a word that is not short, its offset in text_.
    std::array<std::int32_t, 3> ids;
  };
  static Key key_of(std::string_view word);
  std::size_t slot_of(std::string_view word, const Key& key) const;
  void grow();

  std::vector<Slot> slots_;  // open addressing, at most half full
  std::size_t used_ = 0;
  std::string text_;
  std::vector<std::int32_t> ids_;
};

}  // namespace trireme::data
