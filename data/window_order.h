#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "data/blend.h"
#include "data/sample_order.h"
#include "data/sequencer.h"

namespace trireme::data {

// A pseudorandom permutation of [0, n) by key, for any n up to 2^63, evaluated per index without
// tables. A Feistel network with Philox as the round function permutes the smallest power of two
// that is at least n; results outside [0, n) are permuted again (cycle walking), fewer than two
// rounds on average.
class Shuffle {
 public:
  Shuffle(std::uint64_t n, std::uint64_t key);
  std::uint64_t operator()(std::uint64_t index) const;
  std::uint64_t size() const { return n_; }

 private:
  std::uint64_t permute(std::uint64_t value) const;

  std::uint64_t n_, key_;
  int low_bits_, high_bits_;
};

// The selected tokens of a source as windows: window w has seq_len + 1 tokens from w * seq_len on,
// so that adjacent windows share a token and every token is predicted once per epoch (the last,
// incomplete window is dropped).
struct WindowRow {
  std::int64_t begin = 0;  // first token in the source's stream
  std::uint64_t count = 0;
  std::int64_t seq_len = 0;
  std::int64_t stride = 0;  // tokens from one window to the next
  std::uint64_t key = 0;    // of its shuffled orders
};

// Trireme's order. Sources alternate by Mixture; every epoch of a source visits its windows in a
// new order by Shuffle. No tables and no state.
class WindowOrder : public SampleOrder {
 public:
  struct Options {
    std::uint64_t seed = 0;
    bool shuffle = true;  // false: windows in file order
  };
  WindowOrder(std::vector<WindowRow> rows, Mixture mixture, const Options& how);

  Origin origin(std::uint64_t sample) const override;
  std::vector<TokenRun> runs(const Origin& from) const override;
  std::vector<std::uint64_t> consumed(std::uint64_t sample) const override {
    return mixture_.counts(sample);
  }
  std::uint64_t windows(std::size_t source) const override { return rows_.at(source).count; }

 private:
  std::vector<WindowRow> rows_;  // [sources]
  Mixture mixture_;
  Options how_;
  std::uint64_t shuffle_key_;
};

// Of the selected tokens of a part; stride 0: seq_len.
WindowRow window_row(const SourcePart& part, std::int64_t seq_len, std::int64_t stride,
                     std::uint64_t key);

// Megatron-LM's order of opened sources; the parts outlive it.
std::unique_ptr<SampleOrder> megatron_order_of(const std::vector<SourcePart>& parts,
                                               const SequenceSpec& sequence);

}  // namespace trireme::data
