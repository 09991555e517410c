#include "model/ops/cpu/column_sums.h"

#define HWY_TARGET_INCLUDE "model/ops/cpu/column_sums.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/device/cpu/threads.h"
#include "model/ops/cpu/simd/vec.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class T>
struct Columns {
  Accumulator<T>* out = nullptr;
  const T* x = nullptr;
  std::int64_t rows = 0, stride = 0, columns = 0;
  bool add = false;
};

template <class T>
TRIREME_KERNEL void sum_columns(const Columns<T>& op) {
  using A = Accumulator<T>;
  constexpr std::int64_t kBlock = 512, kRows = 8;
  for (std::int64_t first = 0; first < op.columns; first += kBlock) {
    const std::int64_t n = op.columns - first < kBlock ? op.columns - first : kBlock;
    // Eight rows at a time in A, whose sums are added in float64.
    double sums[kBlock] = {};
    A few[kBlock];
    std::int64_t row = 0;
    for (; row + kRows <= op.rows; row += kRows) {
      const T* x = op.x + row * op.stride + first;
      each_vector<A>(n, [&](auto some, std::int64_t i, int) {
        const auto at_row = [&](int r) { return load(some, x + r * op.stride + i); };
        const Vec<A> v = ((at_row(0) + at_row(1)) + (at_row(2) + at_row(3))) +
                         ((at_row(4) + at_row(5)) + (at_row(6) + at_row(7)));
        store(Full{}, few + i, v);
      });
      for (std::int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(few[i]);
    }
    for (; row < op.rows; ++row) {
      const T* x = op.x + row * op.stride + first;
      for (std::int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(static_cast<A>(x[i]));
    }
    A* out = op.out + first;
    for (std::int64_t i = 0; i < n; ++i) {
      out[i] = static_cast<A>(op.add ? static_cast<double>(out[i]) + sums[i] : sums[i]);
    }
  }
}

void column_sums(Tensor out, Tensor x, Accumulate accumulate, std::int64_t first) {
  const std::int64_t rows = x.rows(), columns = out.count();
  with_float(x.dtype, [&]<class T>(T) {
    // Whole cache lines per thread, and enough of them.
    constexpr std::int64_t kColumns = 64;
    const std::int64_t grain = 65536 / kColumns / (rows > 0 ? rows : 1) + 1;
    trireme::cpu::parallel_for(
        (columns + kColumns - 1) / kColumns, grain, [&](std::int64_t from, std::int64_t to) {
          const std::int64_t column = from * kColumns;
          sum_columns<T>({.out = at<Accumulator<T>>(out, column),
                          .x = at<T>(x, first + column),
                          .rows = rows,
                          .stride = x.width(),
                          .columns = std::min(columns, to * kColumns) - column,
                          .add = accumulate == Accumulate::kAdd});
        });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(column_sums);

void column_sums(Tensor out, Tensor x, Accumulate accumulate, std::int64_t first) {
  HWY_DYNAMIC_DISPATCH(column_sums)(out, x, accumulate, first);
}

}  // namespace trireme::ops::cpu
#endif
