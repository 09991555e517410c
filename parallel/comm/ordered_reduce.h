#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/tensor/dtype.h"
#include "parallel/comm/communicator.h"

namespace trireme::comm {

// out[i] = the reduction of contributions[0][i], contributions[1][i], ... for `count` elements of
// `dtype` in host memory, by one binary tree: n contributions are split into the first p, the
// greatest power of two below n, and the rest: (0 + 1) + 2, (0 + 1) + (2 + 3), ((0 + 1) + (2 + 3))
// + (4 + 5). Aligned groups of a power of two ranks may therefore be summed first without changing
// the bits. bfloat16 and float16 are summed in float32 and rounded once; int32 wraps around; kMax
// propagates NaN. `out` may be one of the contributions.
void reduce_in_order(Reduce reduce, DType dtype, const std::vector<const std::byte*>& contributions,
                     std::byte* out, std::int64_t count);

}  // namespace trireme::comm
