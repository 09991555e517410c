#include "model/ops/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/flat.cuh"
#include "model/ops/cuda/reduce.cuh"
#include "model/ops/cuda/values.cuh"

// One block per row, which reads it once in each op: probabilities are written only as the
// gradient, in place of the logits.
namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kThreads = 512;            // at most
constexpr int kStatisticsThreads = 256;  // more registers each: smaller blocks occupy the device

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

// Packs of a thread whose loads are in flight together; doubles need more registers.
template <class T>
constexpr int kAhead = sizeof(T) == 8 ? 2 : 4;

// Calls body(packs, column of the first) for the kAhead<T> packs of a row that a thread processes
// at once, blockDim.x packs apart; elements beyond the row's end are -inf. A pack always has the
// same thread.
template <int n, class T, class Body>
__device__ void each_group(const T* row, std::int64_t width, const Body& body) {
  const std::int64_t step = std::int64_t{blockDim.x} * n;
  float infinite[n];
#pragma unroll
  for (int e = 0; e < n; ++e) infinite[e] = -INFINITY;
  const Pack<T, n> nothing = packed<T>(infinite);
  for (std::int64_t column = std::int64_t{threadIdx.x} * n; column < width;
       column += kAhead<T> * step) {
    Pack<T, n> packs[kAhead<T>];
#pragma unroll
    for (int j = 0; j < kAhead<T>; ++j) {
      if (const std::int64_t at = column + j * step; at < width) {
        packs[j] = pack_at<n>(row + at);
      } else {
        packs[j] = nothing;
      }
    }
    body(packs, column);
  }
}

// Calls body(value) for a group's elements.
template <int n, class T, class Body>
__device__ void each_element(const Pack<T, n> (&packs)[kAhead<T>], const Body& body) {
#pragma unroll
  for (int j = 0; j < kAhead<T>; ++j) {
#pragma unroll
    for (int e = 0; e < n; ++e) body(widened(packs[j][e]));
  }
}

template <class T>
__global__ __launch_bounds__(kThreads) void mask_columns(const LogitRows<T> in, T nothing,
                                                         std::int64_t columns) {
  for (std::int64_t i = columns + threadIdx.x; i < in.width; i += blockDim.x) in.row()[i] = nothing;
}

struct Larger {
  template <class A>
  __device__ A operator()(A a, A b) const {
    return larger(a, b);
  }
};

template <int n, class T>
__global__ __launch_bounds__(kThreads) void largest_of_rows(Accumulator<T>* top,
                                                            const LogitRows<T> in) {
  using A = Accumulator<T>;
  A most = static_cast<A>(-INFINITY);
  each_group<n>(in.row(), in.width, [&](const Pack<T, n>(&packs)[kAhead<T>], std::int64_t) {
    each_element(packs, [&](A x) { most = larger(most, x); });
  });
  most = over_block<kThreads>(most, Larger{});
  if (threadIdx.x == 0) top[blockIdx.x] = most;
}

template <int n, class T>
__global__ __launch_bounds__(kThreads) void exp_sums_of_rows(Accumulator<T>* total,
                                                             Accumulator<T>* target,
                                                             const LogitRows<T> in) {
  using A = Accumulator<T>;
  const A top = in.top[blockIdx.x];
  A mine = 0;
  each_group<n>(in.row(), in.width, [&](const Pack<T, n>(&packs)[kAhead<T>], std::int64_t) {
    each_element(packs, [&](A x) { mine += exponential<T>(x - top); });
  });
  const double sum =
      over_block<kThreads>(static_cast<double>(mine), [](double a, double b) { return a + b; });
  if (threadIdx.x != 0) return;
  const std::int64_t at = in.column();
  total[blockIdx.x] = static_cast<A>(sum);
  target[blockIdx.x] = at < 0 ? A(0) : widened(in.row()[at]) - top;
}

// Both in one pass: a thread scales its sum down where it meets a larger value (Milakov and
// Gimelshein 2018, "Online normalizer calculation for softmax"), once a group.
template <int n, class T>
__global__ __launch_bounds__(kStatisticsThreads, 4) void statistics_of_rows(Accumulator<T>* tops,
                                                                            Accumulator<T>* total,
                                                                            Accumulator<T>* target,
                                                                            const LogitRows<T> in) {
  using A = Accumulator<T>;
  const A nothing = static_cast<A>(-INFINITY);
  A most = nothing, mine = 0;
  each_group<n>(in.row(), in.width, [&](const Pack<T, n>(&packs)[kAhead<T>], std::int64_t) {
    const A before = most;
    each_element(packs, [&](A x) { most = larger(most, x); });
    if (most == nothing) return;  // only masked columns so far
    if (most != before) mine *= exponential<T>(before - most);
    each_element(packs, [&](A x) { mine += exponential<T>(x - most); });
  });
  const A top = over_block<kStatisticsThreads>(most, Larger{});
  // A row of masked columns alone has no sum: NaN, as of exp(-inf + inf).
  const double scaled = static_cast<double>(mine) *
                        (most == top && top != nothing
                             ? 1
                             : std::exp(static_cast<double>(most) - static_cast<double>(top)));
  const double sum =
      over_block<kStatisticsThreads>(scaled, [](double a, double b) { return a + b; });
  if (threadIdx.x != 0) return;
  const std::int64_t at = in.column();
  tops[blockIdx.x] = top;
  total[blockIdx.x] = static_cast<A>(sum);
  target[blockIdx.x] = at < 0 ? A(0) : widened(in.row()[at]) - top;
}

template <int kCount, class T>
__global__ __launch_bounds__(kFlatThreads) void transform_kernel(T* logits, Sum<T> scale,
                                                                 Sum<T> soft_cap,
                                                                 std::int64_t count) {
  over_flat<kCount>(count, [&]<int n>(Count<n>, std::int64_t first) {
    Sum<T> v[n];
    load(v, logits + first);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      v[k] *= scale;
      if (soft_cap > 0) v[k] = soft_cap * std::tanh(v[k] / soft_cap);
    }
    store(logits + first, v);
  });
}

template <class A>
__global__ __launch_bounds__(kThreads) void losses(A* loss, const A* top, const A* total,
                                                   const A* target, const std::int32_t* targets,
                                                   std::int64_t rows, double z_loss) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  const double log_sum = std::log(static_cast<double>(total[row]));
  double value = log_sum - static_cast<double>(target[row]);
  if (z_loss != 0) {
    const double whole = static_cast<double>(top[row]) + log_sum;
    value += z_loss * whole * whole;
  }
  loss[row] = targets[row] < 0 ? A(0) : static_cast<A>(value);
}

template <int n, class T>
__global__ __launch_bounds__(kThreads) void gradients_of_rows(const Accumulator<T>* total,
                                                              const LogitRows<T> in,
                                                              const double* given_scale,
                                                              LogitForm form) {
  using A = Accumulator<T>;
  const A top = in.top[blockIdx.x];
  const double sum = static_cast<double>(total[blockIdx.x]);
  const double scale = (given_scale != nullptr ? *given_scale : 1) * form.scale;
  const bool counts = in.targets[blockIdx.x] >= 0;
  double weight = 1;  // of the probabilities: the z-loss adds to it
  if (form.z_loss != 0) {
    weight += 2 * form.z_loss * (static_cast<double>(top) + std::log(sum));
  }
  const A factor = counts ? static_cast<A>(scale * weight / sum) : A(0);
  const A inverse_cap = form.soft_cap > 0 ? static_cast<A>(1 / form.soft_cap) : A(0);
  // The slope of the cap. A masked column, -inf, has none.
  const auto slope = [&](A l) {
    const A t = min(A(1), fabs(l) * inverse_cap);
    return A(1) - t * t;
  };
  const std::int64_t at = in.column();
  const bool has_target = at >= 0 && at / n % blockDim.x == threadIdx.x;
  A of_target = 0;
  if (has_target) {
    // Subtracted before rounding: a confident correct prediction leaves a small difference.
    const A right = widened(in.row()[at]);
    const double difference = static_cast<double>(right) - static_cast<double>(top);
    const double change = scale * (std::exp(difference) / sum * weight - 1);
    of_target =
        static_cast<A>(inverse_cap > 0 ? change * static_cast<double>(slope(right)) : change);
  }
  each_group<n>(in.row(), in.width, [&](const Pack<T, n>(&packs)[kAhead<T>], std::int64_t column) {
#pragma unroll
    for (int j = 0; j < kAhead<T>; ++j) {
      A gradient[n];
#pragma unroll
      for (int e = 0; e < n; ++e) {
        // Not a product with zero if the row does not count: that would preserve NaN.
        const A l = widened(packs[j][e]);
        gradient[e] = counts ? factor * exponential<T>(l - top) : A(0);
        if (inverse_cap > 0 && counts) gradient[e] *= slope(l);
      }
      const std::int64_t to = column + j * std::int64_t{blockDim.x} * n;
      if (to < in.width) store(in.row() + to, gradient);
    }
  });
  if (has_target) in.row()[at] = rounded<T>(of_target);
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

// One block per row, with at least one pack of n elements per thread.
template <int n, int most_threads = kThreads, class T, class... Parameters>
void launch_rows(Stream& stream, void (*kernel)(Parameters...), const LogitRows<T>& rows,
                 std::type_identity_t<Parameters>... arguments) {
  const std::int64_t warps = parts(rows.width, 32 * n);
  launch(kernel, extent(rows.rows),
         extent(32 * std::clamp<std::int64_t>(warps, 1, most_threads / 32)), 0, stream,
         arguments...);
}

}  // namespace

void mask_padding(Stream& stream, Tensor logits, std::int64_t columns) {
  with_float(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto rows = rows_of<T>(logits, {}, {}, 0);
    launch_rows<1>(stream, mask_columns<T>, rows, rows, T(-INFINITY), columns);
  });
}

void row_max(Stream& stream, Tensor top, Tensor logits) {
  with_float(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto rows = rows_of<T>(logits, {}, {}, 0);
    const auto run = [&]<int n>(Count<n>) {
      launch_rows<n>(stream, largest_of_rows<n, T>, rows, top.as<Accumulator<T>>(), rows);
    };
    with_packs<T>(rows.width, run, logits);
  });
}

void row_exp_sum(Stream& stream, Tensor total, Tensor target, Tensor logits, Tensor top,
                 Tensor targets, std::int64_t first) {
  with_float(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const auto rows = rows_of<T>(logits, top, targets, first);
    const auto run = [&]<int n>(Count<n>) {
      launch_rows<n>(stream, exp_sums_of_rows<n, T>, rows, total.as<A>(), target.as<A>(), rows);
    };
    with_packs<T>(rows.width, run, logits);
  });
}

void row_max_exp_sum(Stream& stream, Tensor top, Tensor total, Tensor target, Tensor logits,
                     Tensor targets) {
  with_float(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const auto rows = rows_of<T>(logits, {}, targets, 0);
    const auto run = [&]<int n>(Count<n>) {
      launch_rows<n, kStatisticsThreads>(stream, statistics_of_rows<n, T>, rows, top.as<A>(),
                                         total.as<A>(), target.as<A>(), rows);
    };
    with_packs<T>(rows.width, run, logits);
  });
}

void transform_logits(Stream& stream, Tensor logits, const LogitForm& form) {
  const std::int64_t count = logits.count();
  with_float(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&]<int n>(Count<n>) {
      launch(transform_kernel<n, T>, flat_blocks<n>(count), kFlatThreads, 0, stream, logits.as<T>(),
             static_cast<Sum<T>>(form.scale), static_cast<Sum<T>>(form.soft_cap), count);
    };
    with_packs<T>(kNoRows, run, logits);
  });
}

void cross_entropy(Stream& stream, Tensor loss, Tensor top, Tensor total, Tensor target,
                   Tensor targets, const LogitForm& form) {
  const std::int64_t rows = loss.count();
  with_float(loss.dtype, [&](auto zero) {
    using A = decltype(zero);
    if constexpr (kIsAccumulator<A>) {
      launch(losses<A>, extent(parts(rows, kThreads)), kThreads, 0, stream, loss.as<A>(),
             top.as<A>(), total.as<A>(), target.as<A>(), targets.as<std::int32_t>(), rows,
             form.z_loss);
    }
  });
}

void cross_entropy_backward(Stream& stream, Tensor logits, Tensor top, Tensor total, Tensor targets,
                            std::int64_t first, Tensor scale, const LogitForm& form) {
  with_float(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto rows = rows_of<T>(logits, top, targets, first);
    const double* const given = scale ? scale.as<double>() : nullptr;
    const auto run = [&]<int n>(Count<n>) {
      launch_rows<n>(stream, gradients_of_rows<n, T>, rows, total.as<Accumulator<T>>(), rows, given,
                     form);
    };
    with_packs<T>(rows.width, run, logits);
  });
}

}  // namespace trireme::ops::cuda
