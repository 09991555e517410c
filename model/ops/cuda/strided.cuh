#pragma once
// Included only by kernel sources: indices of a box's elements in the whole tensor.
#include <cstdint>

#include "model/ops/strided_copy.h"

namespace trireme::ops::cuda {

__device__ inline std::int64_t index_of(const Strided& where, std::int64_t i) {
  const std::int64_t at = where.first + i;
  if (at < where.run) return where.start + at;
  // A division of 64 bits takes some five times as long.
  const bool is_narrow = (at | where.run) >> 32 == 0;
  const std::int64_t row =
      is_narrow ? static_cast<std::uint32_t>(at) / static_cast<std::uint32_t>(where.run)
                : at / where.run;
  return row * where.stride + where.start + (at - row * where.run);
}

// Whether a range of `count` elements of the box consists of packs of `pack` elements that are
// adjacent in the whole, with indices that are multiples of `pack`; the last one may be shorter.
inline bool is_in_packs(const Strided& where, std::int64_t count, std::int64_t pack) {
  const bool is_one_run = where.first + count <= where.run;
  return where.first % pack == 0 && where.start % pack == 0 &&
         (is_one_run || (where.run % pack == 0 && where.stride % pack == 0));
}

}  // namespace trireme::ops::cuda
