#pragma once
#include <cstdint>
#include <vector>

#include "model/device/stream.h"
#include "model/tensor/tensor.h"

namespace trireme {

// Sums `leaves` tensors, one at a time, by the tree of a binary counter: aligned groups of a power
// of two are summed first. The sum of an aligned group is therefore the same on every rank, and a
// rank that has all of the group can compute it alone.
//
// Partial sums need levels(leaves) buffers.
class TreeSum {
 public:
  static int levels(std::int64_t leaves);

  // Where to compute leaf `k`, so that it need not be copied, if possible.
  static Tensor place(std::int64_t k, std::int64_t leaves, const Tensor& total,
                      const std::vector<Tensor>& partial);
  // Adds leaf `k`, at its place() or elsewhere. After the last leaf `total` is the sum. `total`,
  // and the leaf, may be overwritten before.
  static void add(Stream& stream, std::int64_t k, std::int64_t leaves, Tensor leaf,
                  const Tensor& total, const std::vector<Tensor>& partial);
};

}  // namespace trireme
