#include "model/ops/elementwise.h"

#include <algorithm>

#include "model/device/copy.h"
#include "model/ops/cuda/flat.cuh"
#include "model/ops/cuda/reduce.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::launch;

template <int kCount, class T>
__global__ void add_kernel(T* y, const T* a, const T* b, std::int64_t count) {
  over_flat<kCount>(count, [&]<int n>(Count<n>, std::int64_t first) {
    Sum<T> left[n], right[n];
    load(left, a + first);
    load(right, b + first);
#pragma unroll
    for (int k = 0; k < n; ++k) left[k] += right[k];
    store(y + first, left);
  });
}

template <int kCount, class T>
__global__ void scale_kernel(T* y, const T* x, Sum<T> factor, std::int64_t count) {
  over_flat<kCount>(count, [&]<int n>(Count<n>, std::int64_t first) {
    Sum<T> v[n];
    load(v, x + first);
#pragma unroll
    for (int k = 0; k < n; ++k) v[k] *= factor;
    store(y + first, v);
  });
}

template <int kCount, class To, class From>
__global__ void cast_kernel(To* to, const From* from, std::int64_t count) {
  over_flat<kCount>(count, [&]<int n>(Count<n>, std::int64_t first) {
    Sum<From> values[n];
    load(values, from + first);
    store(to + first, values);
  });
}

// One block: the input, a batch's losses, is small, and there is no workspace for the sums of a
// second stage.
constexpr int kSumThreads = 1024;

template <class T>
__global__ __launch_bounds__(kSumThreads) void sum_kernel(double* total, const T* x,
                                                          std::int64_t count) {
  __shared__ double room[2][32];
  double mine = 0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < count; i += kSumThreads) {
    mine += static_cast<double>(widened(x[i]));
  }
  Team<double> team{room, static_cast<int>(threadIdx.x), kSumThreads};
  const double all = team.sum(mine);
  if (threadIdx.x == 0) *total = all;
}

}  // namespace

void add(Stream& stream, Tensor y, Tensor a, Tensor b) {
  const std::int64_t count = y.count();
  with_float(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&]<int n>(Count<n>) {
      launch(add_kernel<n, T>, flat_blocks<n>(count), kFlatThreads, 0, stream, at<T>(y), at<T>(a),
             at<T>(b), count);
    };
    with_packs<T>(kNoRows, run, y, a, b);
  });
}

void scale(Stream& stream, Tensor y, Tensor x, double factor) {
  const std::int64_t count = y.count();
  with_float(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&]<int n>(Count<n>) {
      launch(scale_kernel<n, T>, flat_blocks<n>(count), kFlatThreads, 0, stream, at<T>(y), at<T>(x),
             static_cast<Sum<T>>(factor), count);
    };
    with_packs<T>(kNoRows, run, y, x);
  });
}

void copy(Stream& stream, Tensor to, Tensor from) {
  copy_bytes(stream, to.data, from.data, to.bytes());
}

void zero(Stream& stream, Tensor y) {
  fill_bytes(stream, y.data, 0, y.bytes());
}

void cast(Stream& stream, Tensor to, Tensor from) {
  const std::int64_t count = to.count();
  with_float(to.dtype, [&](auto to_zero) {
    with_float(from.dtype, [&](auto from_zero) {
      using To = decltype(to_zero);
      using From = decltype(from_zero);
      constexpr int kCount = 16 / static_cast<int>(std::max(sizeof(To), sizeof(From)));
      const auto run = [&]<int n>(Count<n>) {
        launch(cast_kernel<n, To, From>, flat_blocks<n>(count), kFlatThreads, 0, stream, at<To>(to),
               at<From>(from), count);
      };
      if (aligned(kCount * sizeof(To), to) && aligned(kCount * sizeof(From), from)) {
        run(Count<kCount>{});
      } else {
        run(Count<1>{});
      }
    });
  });
}

void sum(Stream& stream, Tensor total, Tensor x) {
  with_float(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(sum_kernel<T>, 1, kSumThreads, 0, stream, total.as<double>(), at<T>(x), x.count());
  });
}

}  // namespace trireme::ops::cuda
