#pragma once
#include <cstddef>
#include <cstdint>

#include "model/device/stream.h"
#include "model/tensor/dtype.h"
#include "parallel/comm/communicator.h"

namespace trireme::comm::cuda {

// Contributions of `ranks` ranks, `count` elements each, in a device's memory: `own` is rank
// `own_rank`'s, the others' lie one after the other, in rank order, from `others`.
struct Contributions {
  const std::byte* others = nullptr;
  const std::byte* own = nullptr;
  int own_rank = 0;
  int ranks = 1;
};

// out = their reduction, by the tree and with the bits of comm::reduce_in_order. `out` may be
// `own`.
void reduce_in_order(Stream& stream, Reduce reduce, DType dtype, const Contributions& from,
                     std::byte* out, std::int64_t count);

}  // namespace trireme::comm::cuda
