#include "model/ops/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/reduce.cuh"
#include "model/ops/cuda/values.cuh"

// One block per row, which reads it once in each op: probabilities are written only as the
// gradient, in place of the logits.
namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kThreads = 512;  // at most

// Rows of columns [first, first + width) of a vocabulary; a block's row is blockIdx.x.
template <class T>
struct LogitRows {
  T* logits = nullptr;
  const Accumulator<T>* top = nullptr;
  const std::int32_t* targets = nullptr;
  std::int64_t rows = 0, width = 0, first = 0;

  __device__ T* row() const { return logits + blockIdx.x * width; }
  // The target's column on this rank, or -1.
  __device__ std::int64_t column() const {
    const std::int64_t id = targets[blockIdx.x], at = id - first;
    return id >= 0 && at >= 0 && at < width ? at : -1;
  }
};

// Calls body(vector, column of its first element, its elements) for a row's vectors, each always on
// the same thread.
template <class T, class Body>
__device__ void each_vector(const T* row, std::int64_t width, const Body& body) {
  constexpr int kLength = Vector<T>::kLength;
  const bool fits = Vector<T>::fits(row);
  for (std::int64_t column = std::int64_t{threadIdx.x} * kLength; column < width;
       column += std::int64_t{blockDim.x} * kLength) {
    const std::int64_t left = width - column;
    body(load_vector(row + column, left, fits), column,
         left < kLength ? static_cast<int>(left) : kLength);
  }
}

template <class T>
__global__ __launch_bounds__(kThreads) void mask_columns(const LogitRows<T> in, T nothing,
                                                         std::int64_t columns) {
  for (std::int64_t i = columns + threadIdx.x; i < in.width; i += blockDim.x) in.row()[i] = nothing;
}

// NaN is the largest.
struct Larger {
  template <class A>
  __device__ A operator()(A a, A b) const {
    return b > a || b != b ? b : a;
  }
};

template <class T>
__global__ __launch_bounds__(kThreads) void largest_of_rows(Accumulator<T>* top,
                                                            const LogitRows<T> in) {
  using A = Accumulator<T>;
  A most = static_cast<A>(-INFINITY);
  each_vector(in.row(), in.width, [&](const Vector<T>& x, std::int64_t, int count) {
#pragma unroll
    for (int e = 0; e < Vector<T>::kLength; ++e) {
      if (e < count) most = Larger{}(most, widened(x.x[e]));
    }
  });
  most = over_block<kThreads>(most, Larger{});
  if (threadIdx.x == 0) top[blockIdx.x] = most;
}

template <class T>
__global__ __launch_bounds__(kThreads) void exp_sums_of_rows(Accumulator<T>* total,
                                                             Accumulator<T>* target,
                                                             const LogitRows<T> in) {
  using A = Accumulator<T>;
  const A top = in.top[blockIdx.x];
  A mine = 0;
  each_vector(in.row(), in.width, [&](const Vector<T>& x, std::int64_t, int count) {
#pragma unroll
    for (int e = 0; e < Vector<T>::kLength; ++e) {
      if (e < count) mine += std::exp(widened(x.x[e]) - top);
    }
  });
  const double sum =
      over_block<kThreads>(static_cast<double>(mine), [](double a, double b) { return a + b; });
  if (threadIdx.x != 0) return;
  const std::int64_t at = in.column();
  total[blockIdx.x] = static_cast<A>(sum);
  target[blockIdx.x] = at < 0 ? A(0) : widened(in.row()[at]) - top;
}

// Both in one pass: a thread scales its sum down where it meets a larger value (Milakov and
// Gimelshein 2018, "Online normalizer calculation for softmax").
template <class T>
__global__ __launch_bounds__(kThreads) void statistics_of_rows(Accumulator<T>* tops,
                                                               Accumulator<T>* total,
                                                               Accumulator<T>* target,
                                                               const LogitRows<T> in) {
  using A = Accumulator<T>;
  const A nothing = static_cast<A>(-INFINITY);
  A most = nothing, mine = 0;
  each_vector(in.row(), in.width, [&](const Vector<T>& x, std::int64_t, int count) {
    const A before = most;
#pragma unroll
    for (int e = 0; e < Vector<T>::kLength; ++e) {
      if (e < count) most = Larger{}(most, widened(x.x[e]));
    }
    if (most == nothing) return;  // only masked columns so far
    if (most != before) mine *= std::exp(before - most);
#pragma unroll
    for (int e = 0; e < Vector<T>::kLength; ++e) {
      if (e < count) mine += std::exp(widened(x.x[e]) - most);
    }
  });
  const A top = over_block<kThreads>(most, Larger{});
  // A row of masked columns alone has no sum: NaN, as of exp(-inf + inf).
  const double scaled = static_cast<double>(mine) *
                        (most == top && top != nothing
                             ? 1
                             : std::exp(static_cast<double>(most) - static_cast<double>(top)));
  const double sum = over_block<kThreads>(scaled, [](double a, double b) { return a + b; });
  if (threadIdx.x != 0) return;
  const std::int64_t at = in.column();
  tops[blockIdx.x] = top;
  total[blockIdx.x] = static_cast<A>(sum);
  target[blockIdx.x] = at < 0 ? A(0) : widened(in.row()[at]) - top;
}

template <class A>
__global__ __launch_bounds__(kThreads) void losses(A* loss, const A* total, const A* target,
                                                   const std::int32_t* targets, std::int64_t rows) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  const double value = std::log(static_cast<double>(total[row])) - static_cast<double>(target[row]);
  loss[row] = targets[row] < 0 ? A(0) : static_cast<A>(value);
}

template <class T>
__global__ __launch_bounds__(kThreads) void gradients_of_rows(const Accumulator<T>* total,
                                                              const LogitRows<T> in,
                                                              const double* given_scale) {
  using A = Accumulator<T>;
  const A top = in.top[blockIdx.x];
  const double sum = static_cast<double>(total[blockIdx.x]);
  const double scale = given_scale != nullptr ? *given_scale : 1;
  const bool counts = in.targets[blockIdx.x] >= 0;
  const A factor = counts ? static_cast<A>(scale / sum) : A(0);
  const std::int64_t at = in.column();
  const bool fits = Vector<T>::fits(in.row());
  each_vector(in.row(), in.width, [&](const Vector<T>& x, std::int64_t column, int count) {
    Vector<T> gradient;
#pragma unroll
    for (int e = 0; e < Vector<T>::kLength; ++e) {
      // Not a product with zero if the row does not count: that would preserve NaN.
      gradient.x[e] = rounded<T>(counts ? factor * std::exp(widened(x.x[e]) - top) : A(0));
      if (column + e == at) {
        // Subtracted before rounding: a confident correct prediction leaves a small difference.
        const double right = static_cast<double>(widened(x.x[e])) - static_cast<double>(top);
        gradient.x[e] = rounded<T>(static_cast<A>(scale * (std::exp(right) / sum - 1)));
      }
    }
    store_vector(in.row() + column, gradient, count, fits);
  });
}

template <class T>
LogitRows<T> rows_of(Tensor logits, Tensor top, Tensor targets, std::int64_t first) {
  return {.logits = logits.as<T>(),
          .top = top ? top.as<Accumulator<T>>() : nullptr,
          .targets = targets ? targets.as<std::int32_t>() : nullptr,
          .rows = logits.rows(),
          .width = logits.width(),
          .first = first};
}

// One block per row, with at least one vector per thread.
template <class T, class... Parameters>
void launch_rows(Stream& stream, void (*kernel)(Parameters...), Tensor logits,
                 std::type_identity_t<Parameters>... arguments) {
  const std::int64_t warps = parts(logits.width(), 32 * Vector<T>::kLength);
  launch(kernel, extent(logits.rows()),
         extent(32 * std::clamp<std::int64_t>(warps, 1, kThreads / 32)), 0, stream, arguments...);
}

}  // namespace

void mask_padding(Stream& stream, Tensor logits, std::int64_t columns) {
  with_float(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch_rows<T>(stream, mask_columns<T>, logits, rows_of<T>(logits, {}, {}, 0), T(-INFINITY),
                   columns);
  });
}

void row_max(Stream& stream, Tensor top, Tensor logits) {
  with_float(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch_rows<T>(stream, largest_of_rows<T>, logits, top.as<Accumulator<T>>(),
                   rows_of<T>(logits, {}, {}, 0));
  });
}

void row_exp_sum(Stream& stream, Tensor total, Tensor target, Tensor logits, Tensor top,
                 Tensor targets, std::int64_t first) {
  with_float(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch_rows<T>(stream, exp_sums_of_rows<T>, logits, total.as<Accumulator<T>>(),
                   target.as<Accumulator<T>>(), rows_of<T>(logits, top, targets, first));
  });
}

void row_max_exp_sum(Stream& stream, Tensor top, Tensor total, Tensor target, Tensor logits,
                     Tensor targets) {
  with_float(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    launch_rows<T>(stream, statistics_of_rows<T>, logits, top.as<A>(), total.as<A>(),
                   target.as<A>(), rows_of<T>(logits, {}, targets, 0));
  });
}

void cross_entropy(Stream& stream, Tensor loss, Tensor total, Tensor target, Tensor targets) {
  const std::int64_t rows = loss.count();
  with_float(loss.dtype, [&](auto zero) {
    using A = decltype(zero);
    if constexpr (kIsAccumulator<A>) {
      launch(losses<A>, extent(parts(rows, kThreads)), kThreads, 0, stream, loss.as<A>(),
             total.as<A>(), target.as<A>(), targets.as<std::int32_t>(), rows);
    }
  });
}

void cross_entropy_backward(Stream& stream, Tensor logits, Tensor top, Tensor total, Tensor targets,
                            std::int64_t first, Tensor scale) {
  with_float(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch_rows<T>(stream, gradients_of_rows<T>, logits, total.as<Accumulator<T>>(),
                   rows_of<T>(logits, top, targets, first), scale ? scale.as<double>() : nullptr);
  });
}

}  // namespace trireme::ops::cuda
