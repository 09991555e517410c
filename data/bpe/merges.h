#pragma once
#include <cstdint>
#include <vector>

namespace trireme::data {

// The merge table of a BPE: from a pair of ids to the merged id and its rank.
class Merges {
 public:
  struct Merge {
    std::uint32_t rank;  // lowest first
    std::int32_t result;
  };
  explicit Merges(std::size_t count);
  // A repeated pair gets the later rank, as in the tokenizers library.
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

// Applies merges to words, reusing its buffers. Not thread-safe.
class MergeLoop {
 public:
  explicit MergeLoop(const Merges& merges) : merges_(merges) {}
  // Applies the merge of lowest rank, leftmost first, until none applies. O(n log n) for a word of
  // n ids.
  void run(std::vector<std::int32_t>& word);

 private:
  // A search through all pairs for each merge is faster than a heap for the usual word.
  void run_short(std::vector<std::int32_t>& word);
  void run_long(std::vector<std::int32_t>& word);

  struct Symbol {
    std::int32_t id;  // kGone: merged into the previous symbol
    std::uint32_t before, after;
  };
  struct Candidate {
    std::uint64_t order;  // rank, then position
    std::int32_t result;
    bool operator>(const Candidate& other) const { return order > other.order; }
  };
  void propose(std::uint32_t at);

  const Merges& merges_;
  std::vector<Merges::Merge> pairs_;   // of run_short(): merges of each id with the next
  std::vector<Symbol> symbols_;        // of run_long()
  std::vector<Candidate> candidates_;  // a heap
};

}  // namespace trireme::data
