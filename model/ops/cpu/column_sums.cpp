#include "model/ops/cpu/column_sums.h"

#include "model/device/cpu/threads.h"
#include "model/ops/cpu/kernels.h"
#include "model/ops/cpu/simd/elementwise.h"

namespace trireme::ops::cpu {

void column_sums(Tensor out, Tensor x, Accumulate accumulate, std::int64_t first) {
  const std::int64_t rows = x.rows(), columns = out.count();
  with_kernels(x.dtype, [&]<simd::Isa isa, class T>() {
    // Whole cache lines per thread, and enough of them.
    constexpr std::int64_t kColumns = 64;
    const std::int64_t grain = 65536 / kColumns / (rows > 0 ? rows : 1) + 1;
    trireme::cpu::parallel_for(
        (columns + kColumns - 1) / kColumns, grain, [&](std::int64_t from, std::int64_t to) {
          const std::int64_t column = from * kColumns;
          simd::column_sums<isa, T>({.out = at<simd::Sum<T>>(out, column),
                                     .x = at<T>(x, first + column),
                                     .rows = rows,
                                     .stride = x.width(),
                                     .columns = std::min(columns, to * kColumns) - column,
                                     .add = accumulate == Accumulate::kAdd});
        });
  });
}

}  // namespace trireme::ops::cpu
