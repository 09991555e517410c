#pragma once
#include "parallel/comm/communicator.h"
#include "parallel/data/compression/compressed_sum.h"
#include "parallel/data/compression/gradient_range.h"

namespace trireme {

// Scales every rank's gradients by one power of two, rounds them to float16 and sums them in
// float32: half the bytes of float32. The scale comes from the largest gradient of all ranks, so
// that no sum overflows. Needs no residual: the error is at most 1 part in 2048 for elements above
// 2^-29 of the largest. CPU only.
class Float16Sum final : public CompressedSum {
 public:
  Float16Sum(Communicator& group, const GradientRange& range, CompressionMemory memory);
  void reduce(Stream& stream, std::int64_t update) override;
  std::int64_t bytes_sent() const override;

 private:
  float common_scale(Stream& stream);

  Communicator& group_;
  Tensor gradients_;
  std::int64_t part_;       // elements summed per rank
  Tensor sent_, received_;  // [ranks, part] float16, two per word
  Tensor largest_;          // [1]
};

}  // namespace trireme
