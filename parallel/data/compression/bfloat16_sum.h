#pragma once
#include "parallel/comm/communicator.h"
#include "parallel/data/compression/compressed_sum.h"
#include "parallel/data/compression/gradient_range.h"

namespace trireme {

// Every rank's gradients rounded to bfloat16, and their float32 sum again: half the bytes of
// float32. No residual, as nothing is left out for good: what is lost is 1 part in 256 at
// most, up or down alike.
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
