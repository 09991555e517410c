#include "model/ops/expert_rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#define HWY_TARGET_INCLUDE "model/ops/cpu/expert_rows.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/device/cpu/threads.h"
#include "model/ops/cpu/simd/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

using trireme::cpu::parallel_for;

void gather_tokens(Tensor y, Tensor x, const ExpertRows& rows) {
  const std::int64_t width = y.width(), top_k = rows.row_of.width();
  const std::size_t bytes = static_cast<std::size_t>(width) * size_of(y.dtype);
  parallel_for(rows.pairs.count(), row_grain(width), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t token = *at<std::int32_t>(rows.pairs, row) / top_k;
      std::memcpy(y.data + static_cast<std::size_t>(row) * bytes,
                  x.data + static_cast<std::size_t>(token) * bytes, bytes);
    }
  });
}

// A token's sum; `weights` may be null.
template <class T>
TRIREME_KERNEL void combine_row(T* y, const T* x, const Accumulator<T>* weights,
                                const std::int32_t* rows, std::int64_t top_k, std::int64_t width) {
  using A = Accumulator<T>;
  each_vector<A>(width, [&](auto some, std::int64_t i, int) {
    Vec<A> sum = zero<A>();
    for (std::int64_t k = 0; k < top_k; ++k) {
      const Vec<A> value = load(some, x + rows[k] * width + i);
      sum = weights ? MulAdd(spread(weights[k]), value, sum) : sum + value;
    }
    store(some, y + i, sum);
  });
}

void combine_rows(Tensor y, Tensor x, Tensor weights, const ExpertRows& rows) {
  const std::int64_t width = y.width(), top_k = rows.row_of.width();
  with_float(y.dtype, [&]<class T>(T) {
    const auto add_tokens = [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t token = first; token < last; ++token) {
        combine_row(at<T>(y, token * width), at<T>(x), at<Accumulator<T>>(weights, token * top_k),
                    at<std::int32_t>(rows.row_of, token * top_k), top_k, width);
      }
    };
    parallel_for(rows.row_of.rows(), row_grain(width * top_k), add_tokens);
  });
}

// The dot product of two rows, which are then multiplied by `weight`.
template <class T>
TRIREME_KERNEL Accumulator<T> dot_and_scale(T* a, T* b, Accumulator<T> weight, std::int64_t width) {
  using A = Accumulator<T>;
  Sums<A> sums;
  each_vector<A>(width, [&](auto some, std::int64_t i, int k) {
    const Vec<A> a_i = load(some, a + i), b_i = load(some, b + i);
    sums[k] = MulAdd(a_i, b_i, sums[k]);
    store(some, a + i, a_i * spread(weight));
    store(some, b + i, b_i * spread(weight));
  });
  return total(sums);
}

void weigh_rows_backward(Tensor dweights, Tensor act, Tensor dact, Tensor weights,
                         const ExpertRows& rows) {
  const std::int64_t width = act.width();
  with_float(act.dtype, [&]<class T>(T) {
    using A = Accumulator<T>;
    parallel_for(act.rows(), row_grain(width), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) {
        const std::int64_t pair = rows.pairs ? *at<std::int32_t>(rows.pairs, row) : row;
        *at<A>(dweights, pair) = dot_and_scale(at<T>(act, row * width), at<T>(dact, row * width),
                                               *at<A>(weights, pair), width);
      }
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(gather_tokens);
HWY_EXPORT(combine_rows);
HWY_EXPORT(weigh_rows_backward);

void order_by_expert(Stream&, const ExpertRows& rows, Tensor experts) {
  std::int32_t* const starts = rows.starts.as<std::int32_t>();
  std::int32_t* const pairs = rows.pairs.as<std::int32_t>();
  std::int32_t* const row_of = rows.row_of.as<std::int32_t>();
  const std::int32_t* const expert = experts.as<std::int32_t>();
  const std::int64_t count = experts.count();
  std::fill(starts, starts + rows.starts.count(), 0);
  for (std::int64_t pair = 0; pair < count; ++pair) ++starts[expert[pair]];
  // Backwards, so that each expert's end becomes its start and tokens keep their order.
  std::partial_sum(starts, starts + rows.starts.count(), starts);
  for (std::int64_t pair = count - 1; pair >= 0; --pair) {
    const std::int32_t row = --starts[expert[pair]];
    pairs[row] = static_cast<std::int32_t>(pair);
    row_of[pair] = row;
  }
}

void gather_tokens(Stream&, Tensor y, Tensor x, const ExpertRows& rows) {
  HWY_DYNAMIC_DISPATCH(gather_tokens)(y, x, rows);
}
void combine_rows(Stream&, Tensor y, Tensor x, Tensor weights, const ExpertRows& rows) {
  HWY_DYNAMIC_DISPATCH(combine_rows)(y, x, weights, rows);
}
void weigh_rows_backward(Stream&, Tensor dweights, Tensor act, Tensor dact, Tensor weights,
                         const ExpertRows& rows) {
  HWY_DYNAMIC_DISPATCH(weigh_rows_backward)(dweights, act, dact, weights, rows);
}

}  // namespace trireme::ops::cpu
#endif
