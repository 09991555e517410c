#pragma once
#include "parallel/comm/communicator.h"
#include "parallel/data/compression/compressed_sum.h"
#include "parallel/data/compression/gradient_range.h"

namespace trireme {

// Rounds every rank's gradients to bfloat16 and sums them in float32: half the bytes of float32.
// Needs no residual: the error is at most 1 part in 256 and unbiased.
class Bfloat16Sum final : public CompressedSum {
 public:
  Bfloat16Sum(Communicator& group, const GradientRange& range, CompressionMemory memory);
  void reduce(Stream& stream, std::int64_t update) override;
  std::int64_t bytes_sent() const override;

 private:
  Communicator& group_;
  Tensor gradients_, message_;
};

}  // namespace trireme
