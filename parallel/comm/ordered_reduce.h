#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/tensor/dtype.h"
#include "parallel/comm/communicator.h"

namespace trireme::comm {

// out[i] = the reduction of contributions[0][i], contributions[1][i], ... taken in this
// order, for `count` elements of `dtype` in host memory. bfloat16 is summed in float32
// and rounded once; int32 wraps around; a NaN stays one under kMax. `out` may be one of
// the contributions.
void reduce_in_order(Reduce reduce, DType dtype, const std::vector<const std::byte*>& contributions,
                     std::byte* out, std::int64_t count);

}  // namespace trireme::comm
