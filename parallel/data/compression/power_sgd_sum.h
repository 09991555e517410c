#pragma once
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/data/compression/compressed_sum.h"
#include "parallel/data/compression/gradient_range.h"

namespace trireme {

// PowerSGD (Vogels et al. 2019): of every matrix M + residual, summed over the ranks, one step
// of the power method from the last update's directions q finds p q of the given rank, p
// orthonormal. Sent are p [rows, rank] and q [rank, width]; vectors, and matrices that would
// not get smaller, go whole. Exact for sums whose rank is no higher. On the CPU only.
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
  // A run of vectors, and its place in the message.
  struct Vectors {
    Tensor gradient, message;
  };
  Communicator& group_;
  int rank_;
  std::vector<Factors> factors_;
  std::vector<Vectors> vectors_;
  Tensor first_;       // all p and the vectors, back to back: one message
  Tensor directions_;  // all q: the other; kept for the next update
};

}  // namespace trireme
