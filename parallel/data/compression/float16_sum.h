#pragma once
#include "parallel/comm/communicator.h"
#include "parallel/data/compression/compressed_sum.h"
#include "parallel/data/compression/gradient_range.h"

namespace trireme {

// Every rank's gradients times one power of two, rounded to float16, and their float32 sum
// again: half the bytes of float32. The power of two comes from the largest gradient of all
// ranks, so that no sum overflows. No residual: what is lost is 1 part in 2048 at most of
// anything above 2^-29 of the largest. On the CPU only.
class Float16Sum final : public CompressedSum {
 public:
  Float16Sum(Communicator& group, const GradientRange& range, CompressionMemory memory);
  void reduce(Stream& stream, std::int64_t update) override;
  std::int64_t bytes_sent() const override;

 private:
  float common_scale(Stream& stream);

  Communicator& group_;
  Tensor gradients_;
  std::int64_t part_;       // elements that one rank sums
  Tensor sent_, received_;  // [ranks, part] float16, two to a word
  Tensor largest_;          // [1]
};

}  // namespace trireme
