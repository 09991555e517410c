#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/tensor/dtype.h"
#include "parallel/comm/communicator.h"

namespace trireme::comm {

// out[i] = the reduction of contributions[0][i], contributions[1][i], ... for `count`
// elements of `dtype` in host memory. They are joined by one tree of pairs: n of them as
// the first p, p the greatest power of two below n, and the rest: (0 + 1) + 2,
// (0 + 1) + (2 + 3), ((0 + 1) + (2 + 3)) + (4 + 5). So aligned runs of a power of two
// may be summed first, by groups of their own, and the total keeps its bits. bfloat16 and
// float16 are summed in float32 and rounded once; int32 wraps around; a NaN stays one under kMax.
// `out` may be one of the contributions.
void reduce_in_order(Reduce reduce, DType dtype, const std::vector<const std::byte*>& contributions,
                     std::byte* out, std::int64_t count);

}  // namespace trireme::comm
