#pragma once
#include <cstddef>
#include <cstdint>

#include "model/device/stream.h"
#include "model/tensor/dtype.h"
#include "parallel/comm/communicator.h"

namespace trireme::comm::cuda {

// Contributions of `ranks` ranks in device memory, `count` elements each: `own` is that of rank
// `own_rank`; those of the other ranks are contiguous from `others`, in rank order.
struct Contributions {
  const std::byte* others = nullptr;
  const std::byte* own = nullptr;
  int own_rank = 0;
  int ranks = 1;
};

// out = the reduction by the same tree, and with the same bits, as comm::reduce_in_order. `out` may
// be `own`.
void reduce_in_order(Stream& stream, Reduce reduce, DType dtype, const Contributions& from,
                     std::byte* out, std::int64_t count);

}  // namespace trireme::comm::cuda
