#pragma once
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/data/compression/compressed_sum.h"
#include "parallel/data/compression/gradient_range.h"

namespace trireme {

// PowerSGD (Vogels et al. 2019): approximates every matrix M + residual, summed over the ranks, by
// p q of the given rank, p orthonormal, with one power iteration from the q of the last update.
// Sends p [rows, rank] and q [rank, width]; vectors, and matrices that would not shrink, are sent
// uncompressed. Exact for sums of at most this rank. CPU only.
class PowerSgdSum final : public CompressedSum {
 public:
  PowerSgdSum(Communicator& group, const GradientRange& range, int rank, CompressionMemory memory);
  void reduce(Stream& stream, std::int64_t update) override;
  std::int64_t bytes_sent() const override;

 private:
  struct Factors {
    Tensor gradient, residual;  // [rows, width]
    Tensor p, q;                // [rows, rank], [rank, width]
  };
  // A range of vectors and its offset in the message.
  struct Vectors {
    Tensor gradient, message;
  };
  Communicator& group_;
  int rank_;
  std::vector<Factors> factors_;
  std::vector<Vectors> vectors_;
  Tensor first_;       // first message: all p and the vectors, contiguous
  Tensor directions_;  // second message: all q; kept for the next update
};

}  // namespace trireme
