#pragma once
#include "parallel/comm/communicator.h"
#include "parallel/data/compression/compressed_sum.h"
#include "parallel/data/compression/gradient_range.h"

namespace trireme {

// One bit an element, its sign, and for each kChunk elements their mean magnitude (Seide et
// al. 2014; Karimireddy et al. 2019), with error feedback on both sides of the sum (1-bit
// Adam, Tang et al. 2021): every rank sums a part of the range from all ranks' bits and sends
// that sum as bits again. Of elements in one chunk, those much larger than the mean take many
// updates to be said. On the CPU only.
class OneBitSum final : public CompressedSum {
 public:
  static constexpr std::int64_t kChunk = 512;

  OneBitSum(Communicator& group, const GradientRange& range, CompressionMemory memory);
  void reduce(Stream& stream, std::int64_t update) override;
  std::int64_t bytes_sent() const override;

 private:
  template <class Body>
  void for_chunks(Stream& stream, int part, const Body& body) const;

  Communicator& group_;
  Tensor gradients_;
  std::int64_t chunks_;             // that one rank sums
  Tensor residual_, sum_residual_;  // of what this rank sends first, and of its sums
  Tensor sent_, received_;          // [ranks, chunks, words of one] I32
};

}  // namespace trireme
