#pragma once
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/data/compression/compressed_sum.h"
#include "parallel/data/compression/gradient_range.h"

namespace trireme {

// Sends one sign bit per element and one mean magnitude per kChunk elements (Seide et al. 2014;
// Karimireddy et al. 2019), with error feedback on both sides of the sum (1-bit Adam, Tang et al.
// 2021): every rank sums one shard of the range from the bits of all ranks and sends that sum as
// bits again. Elements much larger than the mean of their chunk take many updates to be
// transmitted. CPU only.
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
  std::vector<GradientRange::Run> padding_;
  std::int64_t chunks_;             // chunks summed per rank
  Tensor residual_, sum_residual_;  // of this rank's gradients, and of its shard of the sum
  Tensor sent_, received_;          // [ranks, chunks, words per chunk] I32
};

}  // namespace trireme
