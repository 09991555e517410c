#pragma once
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace trireme {

// A value in shared memory with one writer and concurrent readers, in other processes too: a
// seqlock, so the writer never waits. The version is odd during a write, and stays odd if the
// writer is killed in the middle of one.
template <class Value>
class SharedCell {
 public:
  void write(const Value& value) { write(value, version_.load(std::memory_order_relaxed) / 2); }

  // Sets the version to 2 * number + 2; numbers must increase.
  void write(const Value& value, std::uint64_t number) {
    version_.store(2 * number + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    const Words words = std::bit_cast<Words>(value);
    for (std::size_t i = 0; i < words.size(); ++i) {
      words_[i].store(words[i], std::memory_order_relaxed);
    }
    version_.store(2 * number + 2, std::memory_order_release);
  }

  // Replaces one 64-bit word of the value.
  void write_word(std::size_t word, std::uint64_t bits) {
    words_[word].store(bits, std::memory_order_release);
  }

  struct Seen {
    Value value;
    std::uint64_t version = 0;  // 0: never written
    bool whole = false;         // false: a torn read
  };
  // Retries a few times during a concurrent write.
  Seen read() const {
    constexpr int kTries = 100;
    Seen seen;
    for (int i = 0; i < kTries; ++i) {
      seen.version = version_.load(std::memory_order_acquire);
      Words words;
      for (std::size_t w = 0; w < words.size(); ++w) {
        words[w] = words_[w].load(std::memory_order_relaxed);
      }
      std::atomic_thread_fence(std::memory_order_acquire);
      seen.value = std::bit_cast<Value>(words);
      seen.whole =
          seen.version % 2 == 0 && version_.load(std::memory_order_relaxed) == seen.version;
      if (seen.whole) break;
    }
    return seen;
  }

  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }

 private:
  static_assert(std::is_trivially_copyable_v<Value> && sizeof(Value) % 8 == 0);
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  using Words = std::array<std::uint64_t, sizeof(Value) / 8>;

  std::atomic<std::uint64_t> version_ = 0;
  std::array<std::atomic<std::uint64_t>, sizeof(Value) / 8> words_ = {};
};

}  // namespace trireme
