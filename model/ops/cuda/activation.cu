#include "model/ops/activation.h"

#include <algorithm>

#include "model/ops/cuda/flat.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

// gelu(x) = x/2 (1 + tanh(u)) = x sigmoid(2u), with 2u = kTwice (x + kCubic x^3).
constexpr double kTwice = 1.5957691216057307117598;  // 2 sqrt(2 / pi)
constexpr double kCubic = 0.044715;

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

template <class A>
__device__ A twice_u(A x) {
  return x * fma(x * x, A(kTwice * kCubic), A(kTwice));
}

template <int kCount, class T>
__global__ void gelu_kernel(T* y, const T* x, std::int64_t count) {
  over_flat<kCount>(count, [&]<int n>(Count<n>, std::int64_t first) {
    Sum<T> v[n];
    load(v, x + first);
#pragma unroll
    for (int k = 0; k < n; ++k) v[k] *= sigmoid<T>(twice_u(v[k])).value;
    store(y + first, v);
  });
}

template <int kCount, class T>
__global__ void gelu_backward_kernel(T* dx, const T* dy, const T* x, std::int64_t count) {
  using A = Sum<T>;
  over_flat<kCount>(count, [&]<int n>(Count<n>, std::int64_t first) {
    A v[n], d[n];
    load(v, x + first);
    load(d, dy + first);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const Sigmoid<A> s = sigmoid<T>(twice_u(v[k]));
      // x d(2u)/dx, the factor of the sigmoid's derivative.
      const A steep = v[k] * fma(v[k] * v[k], A(3 * kTwice * kCubic), A(kTwice));
      d[k] *= fma(steep, s.slope, s.value);
    }
    store(dx + first, d);
  });
}

// Column `first` of this thread's pack in its block's row; the grid has a row of blocks per row.
template <int kCount>
__device__ std::int64_t column_of_pack() {
  return (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * kCount;
}

template <int kCount, class T>
__global__ void swiglu_kernel(T* y, const T* x, std::int64_t width) {
  const std::int64_t row = blockIdx.x, column = column_of_pack<kCount>();
  if (column >= width) return;
  Sum<T> gate[kCount], up[kCount];
  load(gate, x + row * 2 * width + column);
  load(up, x + row * 2 * width + width + column);
#pragma unroll
  for (int k = 0; k < kCount; ++k) gate[k] *= sigmoid<T>(gate[k]).value * up[k];
  store(y + row * width + column, gate);
}

template <int kCount, class T>
__global__ void swiglu_backward_kernel(T* dx, const T* dy, const T* x, std::int64_t width) {
  using A = Sum<T>;
  const std::int64_t row = blockIdx.x, column = column_of_pack<kCount>();
  if (column >= width) return;
  const std::int64_t at_gate = row * 2 * width + column, at_up = at_gate + width;
  A gate[kCount], up[kCount], d[kCount];
  load(gate, x + at_gate);
  load(up, x + at_up);
  load(d, dy + row * width + column);
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const Sigmoid<A> s = sigmoid<T>(gate[k]);
    const A dgate = d[k] * up[k] * fma(gate[k], s.slope, s.value);
    up[k] = d[k] * gate[k] * s.value;
    gate[k] = dgate;
  }
  store(dx + at_gate, gate);
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

void gelu(Stream& stream, Tensor y, Tensor x) {
  with_float(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&]<int n>(Count<n>) {
      launch(gelu_kernel<n, T>, flat_blocks<n>(x.count()), kFlatThreads, 0, stream, at<T>(y),
             at<T>(x), x.count());
    };
    with_packs<T>(kNoRows, run, y, x);
  });
}

void gelu_backward(Stream& stream, Tensor dx, Tensor dy, Tensor x) {
  with_float(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&]<int n>(Count<n>) {
      launch(gelu_backward_kernel<n, T>, flat_blocks<n>(x.count()), kFlatThreads, 0, stream,
             at<T>(dx), at<T>(dy), at<T>(x), x.count());
    };
    with_packs<T>(kNoRows, run, dx, dy, x);
  });
}

void swiglu(Stream& stream, Tensor y, Tensor x) {
  with_float(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&]<int n>(Count<n>, dim3 grid, dim3 block) {
      launch(swiglu_kernel<n, T>, grid, block, 0, stream, at<T>(y), at<T>(x), y.width());
    };
    over_rows<T>(y.rows(), y.width(), run, y, x);
  });
}

void swiglu_backward(Stream& stream, Tensor dx, Tensor dy, Tensor x) {
  with_float(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&]<int n>(Count<n>, dim3 grid, dim3 block) {
      launch(swiglu_backward_kernel<n, T>, grid, block, 0, stream, at<T>(dx), at<T>(dy), at<T>(x),
             dy.width());
    };
    over_rows<T>(dy.rows(), dy.width(), run, dx, dy, x);
  });
}

}  // namespace trireme::ops::cuda
