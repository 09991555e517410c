#include "data/bpe/merges.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

namespace trireme::data {
namespace {

constexpr std::int32_t kGone = -1;
constexpr std::uint32_t kEdge = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kShortWord = 48;
constexpr Merges::Merge kNoMerge{std::numeric_limits<std::uint32_t>::max(), -1};

}  // namespace

Merges::Merges(std::size_t count) : slots_(std::bit_ceil(2 * count + 2)) {}

std::uint64_t Merges::pair_of(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

std::size_t Merges::slot_of(std::uint64_t pair) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = (pair * 0x9E3779B97F4A7C15u) >> 32 & mask;
  while (slots_[at].pair != pair && slots_[at].pair != kNone) at = (at + 1) & mask;
  return at;
}

void Merges::add(std::int32_t left, std::int32_t right, Merge merge) {
  const std::uint64_t pair = pair_of(left, right);
  slots_[slot_of(pair)] = {pair, merge};
}

const Merges::Merge* Merges::find(std::int32_t left, std::int32_t right) const {
  const Slot& slot = slots_[slot_of(pair_of(left, right))];
  return slot.pair == kNone ? nullptr : &slot.merge;
}

// Adds the candidate merge of `at` with its right neighbor.
void MergeLoop::propose(std::uint32_t at) {
  const Symbol& symbol = symbols_[at];
  if (symbol.after == kEdge) return;
  const Merges::Merge* merge = merges_.find(symbol.id, symbols_[symbol.after].id);
  if (merge == nullptr) return;
  candidates_.push_back({std::uint64_t{merge->rank} << 32 | at, merge->result});
  std::push_heap(candidates_.begin(), candidates_.end(), std::greater<>());
}

void MergeLoop::run(std::vector<std::int32_t>& word) {
  if (word.size() <= kShortWord) return run_short(word);
  run_long(word);
}

void MergeLoop::run_short(std::vector<std::int32_t>& word) {
  const auto merge_at = [&](std::size_t at) {
    const Merges::Merge* merge = merges_.find(word[at], word[at + 1]);
    return merge == nullptr ? kNoMerge : *merge;
  };
  pairs_.clear();
  for (std::size_t at = 0; at + 1 < word.size(); ++at) pairs_.push_back(merge_at(at));
  while (!pairs_.empty()) {
    const auto best = std::min_element(
        pairs_.begin(), pairs_.end(),
        [](const Merges::Merge& a, const Merges::Merge& b) { return a.rank < b.rank; });
    if (best->rank == kNoMerge.rank) return;
    const auto at = static_cast<std::size_t>(best - pairs_.begin());
    word[at] = best->result;
    word.erase(word.begin() + (best - pairs_.begin()) + 1);
    pairs_.erase(best);
    if (at > 0) pairs_[at - 1] = merge_at(at - 1);
    if (at < pairs_.size()) pairs_[at] = merge_at(at);
  }
}

void MergeLoop::run_long(std::vector<std::int32_t>& word) {
  symbols_.clear();
  candidates_.clear();
  const auto size = static_cast<std::uint32_t>(word.size());
  for (std::uint32_t at = 0; at < size; ++at) {
    symbols_.push_back({word[at], at == 0 ? kEdge : at - 1, at + 1 == size ? kEdge : at + 1});
  }
  for (std::uint32_t at = 0; at + 1 < size; ++at) propose(at);
  while (!candidates_.empty()) {
    const Candidate next = candidates_.front();
    std::pop_heap(candidates_.begin(), candidates_.end(), std::greater<>());
    candidates_.pop_back();
    const auto at = static_cast<std::uint32_t>(next.order);
    Symbol& symbol = symbols_[at];
    if (symbol.id == kGone || symbol.after == kEdge) continue;
    // Stale: one of the two symbols has been merged since.
    const Merges::Merge* merge = merges_.find(symbol.id, symbols_[symbol.after].id);
    if (merge == nullptr || merge->rank != next.order >> 32) continue;
    Symbol& taken = symbols_[symbol.after];
    symbol.id = next.result;
    symbol.after = taken.after;
    taken.id = kGone;
    if (symbol.after != kEdge) symbols_[symbol.after].before = at;
    if (symbol.before != kEdge) propose(symbol.before);
    propose(at);
  }
  word.clear();
  for (std::uint32_t at = 0; at != kEdge; at = symbols_[at].after) word.push_back(symbols_[at].id);
}

}  // namespace trireme::data
