#include "model/ops/activation.h"

#include <algorithm>
#include <cmath>

#include "model/ops/activation_constants.h"
#include "model/ops/cuda/flat.cuh"
#include "model/ops/cuda/magnitudes.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

// 1 / (1 + e^-x) and its derivative, without overflow.
template <class A>
struct Sigmoid {
  A value, slope;
};
template <class T, class A = Sum<T>>
__device__ Sigmoid<A> sigmoid(A x) {
  const A z = exponential<T>(x < 0 ? x : -x);
  const A inverse = reciprocal<T>(A(1) + z);
  const A small = z * inverse;
  return {x < 0 ? small : inverse, small * inverse};
}

// act(x) = x value, with the derivative value + steep slope: x times that of value.
template <class A>
struct Multiplier {
  A value, slope, steep;
};

// The normal distribution's function, in float within 3 ulp if a tail's exponential is exact, and
// its density.
template <class T, class A = Sum<T>>
__device__ Multiplier<A> normal(A x) {
  if constexpr (std::is_same_v<A, double>) {
    return {0.5 * std::erfc(-kInverseRoot2 * x), kNormalPeak * std::exp(-0.5 * x * x), x};
  } else {
    constexpr TailPolynomial tail = kTail;
    // Not fmin, which would lose NaN.
    const float a = x < -kTailEnd || x > kTailEnd ? kTailEnd : std::fabs(x);
    const float t = reciprocal<T>(fma(a, kTailScale, 1.0f));
    float p = tail.coefficient[TailPolynomial::kDegree];
#pragma unroll
    for (int k = TailPolynomial::kDegree - 1; k >= 0; --k) p = fma(p, t, tail.coefficient[k]);
    const float bell = exponential<T>(-0.5f * (a * a));
    const float beyond = t * p * bell;
    return {x < 0 ? beyond : 1 - beyond, bell * static_cast<float>(kNormalPeak), x};
  }
}

template <Activation kind, class T, class A = Sum<T>>
__device__ Multiplier<A> multiplier(A x) {
  if constexpr (kind == Activation::kGelu) {
    return normal<T>(x);
  } else if constexpr (kind == Activation::kRelu2) {
    return {x > 0 ? x : A(0), x > 0 ? A(1) : A(0), x};
  } else if constexpr (kind == Activation::kSilu) {
    const Sigmoid<A> s = sigmoid<T>(x);
    return {s.value, s.slope, x};
  } else {
    const Sigmoid<A> s = sigmoid<T>(x * fma(x * x, A(kTwice * kCubic), A(kTwice)));
    return {s.value, s.slope, x * fma(x * x, A(3 * kTwice * kCubic), A(kTwice))};
  }
}

// Calls body.operator()<kind>(): a branch that all threads take.
template <class Body>
__device__ void with_kind(Activation kind, const Body& body) {
  switch (kind) {
    case Activation::kGelu:
      return body.template operator()<Activation::kGelu>();
    case Activation::kGeluTanh:
      return body.template operator()<Activation::kGeluTanh>();
    case Activation::kRelu2:
      return body.template operator()<Activation::kRelu2>();
    case Activation::kSilu:
      return body.template operator()<Activation::kSilu>();
  }
}

template <int kCount, bool kCollects, class T>
__global__ void activate_kernel(T* y, int* magnitudes, const T* x, std::int64_t count,
                                Activation kind) {
  LargestMagnitude<kCollects> largest;
  over_flat<kCount>(count, [&]<int n>(Count<n>, std::int64_t first) {
    Sum<T> v[n];
    load(v, x + first);
    with_kind(kind, [&]<Activation which>() {
#pragma unroll
      for (int k = 0; k < n; ++k) v[k] *= multiplier<which, T>(v[k]).value;
    });
    largest.add(store(y + first, v));
  });
  largest.template finish<kFlatThreads>(magnitudes);
}

template <int kCount, bool kCollects, class T>
__global__ void activate_backward_kernel(T* dx, int* magnitudes, const T* dy, const T* x,
                                         std::int64_t count, Activation kind) {
  using A = Sum<T>;
  LargestMagnitude<kCollects> largest;
  over_flat<kCount>(count, [&]<int n>(Count<n>, std::int64_t first) {
    A v[n], d[n];
    load(v, x + first);
    load(d, dy + first);
    with_kind(kind, [&]<Activation which>() {
#pragma unroll
      for (int k = 0; k < n; ++k) {
        const Multiplier<A> m = multiplier<which, T>(v[k]);
        d[k] *= fma(m.steep, m.slope, m.value);
      }
    });
    largest.add(store(dx + first, d));
  });
  largest.template finish<kFlatThreads>(magnitudes);
}

// Column `first` of this thread's pack in its block's row; the grid has a row of blocks per row.
template <int kCount>
__device__ std::int64_t column_of_pack() {
  return (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * kCount;
}

template <int kCount, bool kCollects, class T>
__global__ void gate_kernel(T* y, int* magnitudes, const T* x, std::int64_t width,
                            Activation kind) {
  LargestMagnitude<kCollects> largest;
  const std::int64_t row = blockIdx.x, column = column_of_pack<kCount>();
  if (column < width) {
    Sum<T> v[kCount], up[kCount];
    load(v, x + row * 2 * width + column);
    load(up, x + row * 2 * width + width + column);
    with_kind(kind, [&]<Activation which>() {
#pragma unroll
      for (int k = 0; k < kCount; ++k) v[k] *= multiplier<which, T>(v[k]).value * up[k];
    });
    largest.add(store(y + row * width + column, v));
  }
  largest.template finish<kFlatThreads>(magnitudes);
}

// Bounds keep registers at the 32 with which a multiprocessor is full. With magnitudes the compiler
// would spill them before compute capability 9.0, but a multiprocessor of 8.9 is full with 40.
template <bool kCollects>
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int kBackwardBlocks = kCollects ? 6 : 8;
#else
constexpr int kBackwardBlocks = 8;
#endif
template <int kCount, bool kCollects, class T>
__global__ __launch_bounds__(kFlatThreads, kBackwardBlocks<kCollects>) void gate_backward_kernel(
    T* dx, int* magnitudes, const T* dy, const T* x, std::int64_t width, Activation kind) {
  using A = Sum<T>;
  LargestMagnitude<kCollects> largest;
  const std::int64_t row = blockIdx.x, column = column_of_pack<kCount>();
  if (column < width) {
    const std::int64_t at_gate = row * 2 * width + column, at_up = at_gate + width;
    A v[kCount], up[kCount], d[kCount];
    load(v, x + at_gate);
    load(up, x + at_up);
    load(d, dy + row * width + column);
    with_kind(kind, [&]<Activation which>() {
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        const Multiplier<A> m = multiplier<which, T>(v[k]);
        const A dgate = d[k] * up[k] * fma(m.steep, m.slope, m.value);
        up[k] = d[k] * v[k] * m.value;
        v[k] = dgate;
      }
    });
    largest.add(store(dx + at_gate, v));
    largest.add(store(dx + at_up, up));
  }
  largest.template finish<kFlatThreads>(magnitudes);
}

// A gate and its up, clamped so that NaN stays.
template <class A>
struct ClampedUnit {
  A gate, up_plus_one;
  __device__ ClampedUnit(A g, A up, A limit)
      : gate(g > limit ? limit : g),
        up_plus_one((up > limit    ? limit
                     : up < -limit ? -limit
                                   : up) +
                    A(1)) {}
};

template <int kCount, class T>
__global__ void clamped_gate_kernel(T* y, const T* x, std::int64_t width, Sum<T> limit) {
  const std::int64_t row = blockIdx.x, column = column_of_pack<kCount>();
  if (column >= width) return;
  Sum<T> v[kCount], up[kCount];
  load(v, x + row * 2 * width + column);
  load(up, x + row * 2 * width + width + column);
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const ClampedUnit<Sum<T>> unit(v[k], up[k], limit);
    v[k] = unit.gate * sigmoid<T>(unit.gate * static_cast<Sum<T>>(kClampedSlope)).value *
           unit.up_plus_one;
  }
  store(y + row * width + column, v);
}

// Bounds leave the registers that it needs: as many blocks as of gate_backward_kernel would spill.
template <int kCount, class T>
__global__ __launch_bounds__(kFlatThreads, 6) void clamped_gate_backward_kernel(T* dx, const T* dy,
                                                                                const T* x,
                                                                                std::int64_t width,
                                                                                Sum<T> limit) {
  using A = Sum<T>;
  constexpr A kSlope = static_cast<A>(kClampedSlope);
  const std::int64_t row = blockIdx.x, column = column_of_pack<kCount>();
  if (column >= width) return;
  const std::int64_t at_gate = row * 2 * width + column, at_up = at_gate + width;
  A v[kCount], up[kCount], d[kCount];
  load(v, x + at_gate);
  load(up, x + at_up);
  load(d, dy + row * width + column);
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const ClampedUnit<A> unit(v[k], up[k], limit);
    const Sigmoid<A> s = sigmoid<T>(unit.gate * kSlope);
    const A dgate = d[k] * unit.up_plus_one * fma(unit.gate * kSlope, s.slope, s.value);
    const A dup = d[k] * unit.gate * s.value;
    v[k] = v[k] > limit ? A(0) : dgate;
    up[k] = up[k] > limit || up[k] < -limit ? A(0) : dup;
  }
  store(dx + at_gate, v);
  store(dx + at_up, up);
}

// Calls body(Count<n>, grid, block) with a row of blocks for each of `rows`.
template <class T, class Body, class... Tensors>
void over_rows(std::int64_t rows, std::int64_t width, const Body& body, const Tensors&... tensors) {
  with_packs<T>(
      width,
      [&]<int n>(Count<n> count) {
        const std::int64_t packs = width / n;
        const std::int64_t threads = std::min<std::int64_t>(kFlatThreads, parts(packs, 32) * 32);
        body(count, dim3(extent(rows), extent(parts(packs, threads))), extent(threads));
      },
      tensors...);
}

}  // namespace

void activate(Stream& stream, Tensor y, Tensor x, Activation kind, Tensor magnitudes) {
  with_float(x.dtype, [&]<class T>(T) {
    with_magnitudes<T>(stream, magnitudes, [&]<bool collects>(std::bool_constant<collects>) {
      const auto run = [&]<int n>(Count<n>) {
        launch(activate_kernel<n, collects, T>, flat_blocks<n>(x.count()), kFlatThreads, 0, stream,
               at<T>(y), at<int>(magnitudes), at<T>(x), x.count(), kind);
      };
      with_packs<T>(kNoRows, run, y, x);
    });
  });
}

void activate_backward(Stream& stream, Tensor dx, Tensor dy, Tensor x, Activation kind,
                       Tensor magnitudes) {
  with_float(x.dtype, [&]<class T>(T) {
    with_magnitudes<T>(stream, magnitudes, [&]<bool collects>(std::bool_constant<collects>) {
      const auto run = [&]<int n>(Count<n>) {
        launch(activate_backward_kernel<n, collects, T>, flat_blocks<n>(x.count()), kFlatThreads, 0,
               stream, at<T>(dx), at<int>(magnitudes), at<T>(dy), at<T>(x), x.count(), kind);
      };
      with_packs<T>(kNoRows, run, dx, dy, x);
    });
  });
}

void gate(Stream& stream, Tensor y, Tensor x, Activation kind, double limit, Tensor magnitudes) {
  with_float(x.dtype, [&]<class T>(T) {
    if (limit > 0) {
      const auto run = [&]<int n>(Count<n>, dim3 grid, dim3 block) {
        launch(clamped_gate_kernel<n, T>, grid, block, 0, stream, at<T>(y), at<T>(x), y.width(),
               static_cast<Sum<T>>(limit));
      };
      return over_rows<T>(y.rows(), y.width(), run, y, x);
    }
    with_magnitudes<T>(stream, magnitudes, [&]<bool collects>(std::bool_constant<collects>) {
      const auto run = [&]<int n>(Count<n>, dim3 grid, dim3 block) {
        launch(gate_kernel<n, collects, T>, grid, block, 0, stream, at<T>(y), at<int>(magnitudes),
               at<T>(x), y.width(), kind);
      };
      over_rows<T>(y.rows(), y.width(), run, y, x);
    });
  });
}

void gate_backward(Stream& stream, Tensor dx, Tensor dy, Tensor x, Activation kind, double limit,
                   Tensor magnitudes) {
  with_float(x.dtype, [&]<class T>(T) {
    if (limit > 0) {
      const auto run = [&]<int n>(Count<n>, dim3 grid, dim3 block) {
        launch(clamped_gate_backward_kernel<n, T>, grid, block, 0, stream, at<T>(dx), at<T>(dy),
               at<T>(x), dy.width(), static_cast<Sum<T>>(limit));
      };
      return over_rows<T>(dy.rows(), dy.width(), run, dx, dy, x);
    }
    with_magnitudes<T>(stream, magnitudes, [&]<bool collects>(std::bool_constant<collects>) {
      const auto run = [&]<int n>(Count<n>, dim3 grid, dim3 block) {
        launch(gate_backward_kernel<n, collects, T>, grid, block, 0, stream, at<T>(dx),
               at<int>(magnitudes), at<T>(dy), at<T>(x), dy.width(), kind);
      };
      over_rows<T>(dy.rows(), dy.width(), run, dx, dy, x);
    });
  });
}

}  // namespace trireme::ops::cuda
