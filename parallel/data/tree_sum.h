#pragma once
#include <cstdint>
#include <vector>

#include "model/device/stream.h"
#include "model/tensor/tensor.h"

namespace trireme {

// The sum of `leaves` tensors, taken in turn, by the tree of a binary counter: aligned runs
// of a power of two are summed among themselves first. So the sum of an aligned run is the
// same wherever it is made, and a rank that has the run can make it alone.
//
// Partial sums wait in levels(leaves) buffers.
class TreeSum {
 public:
  static int levels(std::int64_t leaves);

  // Where leaf `k` is to lie, if it can be made there, so that it need not be copied.
  static Tensor place(std::int64_t k, std::int64_t leaves, const Tensor& total,
                      const std::vector<Tensor>& partial);
  // Takes in leaf `k`, which may lie in its place or elsewhere. After the last, `total` is
  // the sum. `total` is scratch until then; the leaf may be.
  static void add(Stream& stream, std::int64_t k, std::int64_t leaves, Tensor leaf,
                  const Tensor& total, const std::vector<Tensor>& partial);
};

}  // namespace trireme
