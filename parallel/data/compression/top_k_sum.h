#pragma once
#include "parallel/comm/communicator.h"
#include "parallel/data/compression/compressed_sum.h"
#include "parallel/data/compression/gradient_range.h"

namespace trireme {

// Every rank sends a fraction of its elements, the largest in magnitude, with their indices (Aji
// and Heafield 2017; error feedback: Stich et al. 2018); the rest is kept in the residual. CPU
// only.
class TopKSum final : public CompressedSum {
 public:
  // `fraction` is in (0, 1]; at least one element is sent.
  TopKSum(Communicator& group, const GradientRange& range, double fraction,
          CompressionMemory memory);
  void reduce(Stream& stream, std::int64_t update) override;
  std::int64_t bytes_sent() const override;

 private:
  void pick(const Tensor& values, const Tensor& places) const;
  void add_up() const;

  Communicator& group_;
  Tensor gradients_, residual_;
  std::int64_t kept_;
  Tensor values_;  // [ranks, kept] in the dtype of the gradients
  Tensor places_;  // [ranks, kept] I32
  Tensor counts_;
};

}  // namespace trireme
