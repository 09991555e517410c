#pragma once
#include <algorithm>

#include "model/device/cpu/threads.h"
#include "model/ops/strided_copy.h"

namespace trireme::ops::cpu {

// Calls body(i, at, n) for contiguous ranges: part elements [i, i + n) are at `at` of the whole.
template <class Body>
void each_run(std::int64_t count, const Strided& where, const Body& body) {
  constexpr std::int64_t kGrain = 32768;
  trireme::cpu::parallel_for(count, kGrain, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to;) {
      const std::int64_t at = where.first + i, column = at % where.run;
      const std::int64_t n = std::min(where.run - column, to - i);
      body(i, at / where.run * where.stride + where.start + column, n);
      i += n;
    }
  });
}

}  // namespace trireme::ops::cpu
