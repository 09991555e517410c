#pragma once
#include <cstdint>
#include <vector>

namespace trireme::data {

// The merges of a byte-pair encoding: which two ids become which, and in which order.
class Merges {
 public:
  struct Merge {
    std::uint32_t rank;  // the lowest goes first
    std::int32_t result;
  };
  explicit Merges(std::size_t count);
  // A pair that comes again takes the later rank, as in Hugging Face's library.
  void add(std::int32_t left, std::int32_t right, Merge merge);
  const Merge* find(std::int32_t left, std::int32_t right) const;

 private:
  struct Slot {
    std::uint64_t pair = kNone;
    Merge merge{};
  };
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  static std::uint64_t pair_of(std::int32_t left, std::int32_t right);
  std::size_t slot_of(std::uint64_t pair) const;
  std::vector<Slot> slots_;  // open addressing, at most half full
};

// Merges words, keeping its lists. For one thread.
class MergeLoop {
 public:
  explicit MergeLoop(const Merges& merges) : merges_(merges) {}
  // Applies the merge of the lowest rank, of equals the leftmost, until none applies. A word of
  // n ids takes n log n steps.
  void run(std::vector<std::int32_t>& word);

 private:
  struct Symbol {
    std::int32_t id;  // kGone: merged into the one before
    std::uint32_t before, after;
  };
  struct Candidate {
    std::uint64_t order;  // rank, then place
    std::int32_t result;
    bool operator>(const Candidate& other) const { return order > other.order; }
  };
  void propose(std::uint32_t at);

  const Merges& merges_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> candidates_;  // a heap
};

}  // namespace trireme::data
