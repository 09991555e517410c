#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::data {

// The ids of words that an encoder has seen. A full cache is cleared; long words are not cached, as
// they rarely repeat.
class WordCache {
 public:
  WordCache() : slots_(kFirstSlots) {}
  // Valid until the next add().
  std::optional<std::span<const std::int32_t>> find(std::string_view word) const;
  void add(std::string_view word, std::span<const std::int32_t> ids);

 private:
  static constexpr std::size_t kFirstSlots = 1u << 12;
  struct Slot {
    std::uint64_t hash;
    std::uint32_t text, first;  // offsets in text_ and ids_
    std::uint16_t size = 0;     // length of the word; 0: unused slot
    std::uint16_t count;        // number of ids
  };
  std::size_t slot_of(std::string_view word, std::uint64_t hash) const;
  void grow();

  std::vector<Slot> slots_;  // open addressing, at most half full
  std::size_t used_ = 0;
  std::string text_;
  std::vector<std::int32_t> ids_;
};

}  // namespace trireme::data
