#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/token_batch.h"

namespace trireme {

// The loss of tokens by the position from which they are predicted. Positions count in the document
// if the batch is masked at documents, else in the sequence.
class LossByPosition {
 public:
  // Positions [begin, end).
  struct Bin {
    std::int64_t begin = 0, end = 0;
    std::int64_t tokens = 0;  // with a target
    double loss = 0;          // nats, their sum

    double mean() const { return loss / static_cast<double>(tokens); }
    bool operator==(const Bin&) const = default;
  };

  // Positions [0, seq_len) in `bins` whose sizes differ by at most one; 0: in bins that end at the
  // powers of two from 32 on. At most seq_len bins.
  LossByPosition(std::int64_t seq_len, std::int64_t bins);

  // losses [sequences * seq_len] of the batch.
  void add(const data::TokenBatch& batch, std::span<const double> losses);

  const std::vector<Bin>& bins() const { return bins_; }

 private:
  std::vector<Bin> bins_;
  std::vector<std::size_t> bin_of_;  // [seq_len]
};

}  // namespace trireme
