#include "model/ops/grouped_bias.h"

#include <algorithm>

#define HWY_TARGET_INCLUDE "model/ops/cpu/grouped_bias.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/device/cpu/threads.h"
#include "model/ops/cpu/simd/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

using trireme::cpu::parallel_for;

// Calls body(row, group) for all rows of groups, on all threads.
template <class Body>
void each_grouped_row(const Tensor& starts, std::int64_t width, const Body& body) {
  const std::int32_t* const first = starts.as<std::int32_t>();
  const std::int32_t* const last = first + starts.count() - 1;
  parallel_for(*last, row_grain(width), [&](std::int64_t from, std::int64_t to) {
    std::int64_t group = std::upper_bound(first, last, from) - first - 1;
    for (std::int64_t row = from; row < to; ++row) {
      while (row >= first[group + 1]) ++group;
      body(row, group);
    }
  });
}

void grouped_bias(Tensor y, Tensor bias, Tensor starts) {
  const std::int64_t width = y.width();
  with_float(y.dtype, [&]<class T>(T) {
    if (!starts) {
      parallel_for(y.rows(), row_grain(width), [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t row = from; row < to; ++row) {
          T* const own = at<T>(y, row * width);
          add_range<T>(own, own, at<T>(bias), width);
        }
      });
      return;
    }
    const std::int64_t biases = bias.count() / width;
    each_grouped_row(starts, width, [&](std::int64_t row, std::int64_t group) {
      T* const to = at<T>(y, row * width);
      add_range<T>(to, to, at<T>(bias, group % biases * width), width);
    });
  });
}

constexpr std::int64_t kBiasColumns = 256;

// Columns of the rows of one group; `weights` may be null.
template <class T>
struct GroupColumns {
  Accumulator<T>* out = nullptr;
  const T* x = nullptr;  // the first row's first column
  const Accumulator<T>* weights = nullptr;
  const std::int32_t* pairs = nullptr;  // of the rows; null: weights are theirs
  std::int64_t rows = 0, stride = 0, columns = 0;
  bool add = false;
};

// Eight rows at a time in the accumulator type, whose sums are added in float64.
template <class T>
TRIREME_KERNEL void sum_group_columns(const GroupColumns<T>& op) {
  using A = Accumulator<T>;
  constexpr std::int64_t kRows = 8;
  double sums[kBiasColumns] = {};
  A few[kBiasColumns + kLanes<A>];
  for (std::int64_t first = 0; first < op.rows; first += kRows) {
    const std::int64_t end = op.rows < first + kRows ? op.rows : first + kRows;
    each_vector<A>(op.columns, [&](auto some, std::int64_t i, int) {
      Vec<A> sum = zero<A>();
      for (std::int64_t row = first; row < end; ++row) {
        const A weight = op.weights ? op.weights[op.pairs ? op.pairs[row] : row] : A(1);
        sum = MulAdd(spread(weight), load(some, op.x + row * op.stride + i), sum);
      }
      store(Full{}, few + i, sum);
    });
    for (std::int64_t i = 0; i < op.columns; ++i) sums[i] += static_cast<double>(few[i]);
  }
  for (std::int64_t i = 0; i < op.columns; ++i) {
    op.out[i] = static_cast<A>(op.add ? static_cast<double>(op.out[i]) + sums[i] : sums[i]);
  }
}

void grouped_bias_backward(Tensor dbias, Tensor dy, const RowWeights& weights, Tensor starts,
                           Accumulate accumulate) {
  const std::int64_t width = dy.width(), groups = starts.count() - 1;
  const std::int64_t blocks = (width + kBiasColumns - 1) / kBiasColumns;
  const std::int32_t* const first = starts.as<std::int32_t>();
  with_float(dy.dtype, [&]<class T>(T) {
    parallel_for(groups * blocks, 1, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t item = from; item < to; ++item) {
        const std::int64_t group = item / blocks, column = item % blocks * kBiasColumns;
        const std::int64_t row = first[group];
        sum_group_columns<T>(
            {.out = at<Accumulator<T>>(dbias, group * width + column),
             .x = at<T>(dy, row * width + column),
             .weights = at<Accumulator<T>>(weights.weights, weights.pairs ? 0 : row),
             .pairs = at<std::int32_t>(weights.pairs, row),
             .rows = first[group + 1] - row,
             .stride = width,
             .columns = std::min(kBiasColumns, width - column),
             .add = accumulate == Accumulate::kAdd});
      }
    });
  });
}

template <class T>
TRIREME_KERNEL Accumulator<T> dot_of_rows(const T* a, const T* b, std::int64_t width) {
  using A = Accumulator<T>;
  Sums<A> sums;
  each_vector<A>(width, [&](auto some, std::int64_t i, int k) {
    sums[k] = MulAdd(load(some, a + i), load(some, b + i), sums[k]);
  });
  return total(sums);
}

void grouped_bias_dots(Tensor dweights, Tensor dy, Tensor bias, Tensor pairs, Tensor starts) {
  const std::int64_t width = dy.width(), biases = bias.count() / width;
  with_float(dy.dtype, [&]<class T>(T) {
    each_grouped_row(starts, width, [&](std::int64_t row, std::int64_t group) {
      const std::int64_t pair = pairs ? *at<std::int32_t>(pairs, row) : row;
      *at<Accumulator<T>>(dweights, pair) +=
          dot_of_rows<T>(at<T>(dy, row * width), at<T>(bias, group % biases * width), width);
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(grouped_bias);
HWY_EXPORT(grouped_bias_backward);
HWY_EXPORT(grouped_bias_dots);

void grouped_bias(Stream&, Tensor y, Tensor bias, Tensor starts) {
  HWY_DYNAMIC_DISPATCH(grouped_bias)(y, bias, starts);
}
void grouped_bias_backward(Stream&, Tensor dbias, Tensor dy, const RowWeights& weights,
                           Tensor starts, Accumulate accumulate) {
  HWY_DYNAMIC_DISPATCH(grouped_bias_backward)(dbias, dy, weights, starts, accumulate);
}
void grouped_bias_dots(Stream&, Tensor dweights, Tensor dy, Tensor bias, Tensor pairs,
                       Tensor starts) {
  HWY_DYNAMIC_DISPATCH(grouped_bias_dots)(dweights, dy, bias, pairs, starts);
}

}  // namespace trireme::ops::cpu
#endif
