#pragma once
// Included only by kernel sources. One row of a norm, for rows and for heads; n elements at once.
#include "model/ops/cuda/reduce.cuh"
#include "model/ops/cuda/values.cuh"
#include "model/ops/norm_kind.h"

namespace trireme::ops::cuda {

template <class A>
struct Statistics {
  A mean, inverse;
};

template <NormKind kind, int n, class T>
__device__ Statistics<Sum<T>> statistics(const T* x, std::int64_t width, Sum<T> epsilon,
                                         Team<Sum<T>>& team) {
  using A = Sum<T>;
  A mean = 0;
  if constexpr (kind == NormKind::kLayerNorm) {
    A sum = 0;
    for (std::int64_t i = team.lane * n; i < width; i += team.lanes * n) {
      A v[n];
      load(v, x + i);
#pragma unroll
      for (int k = 0; k < n; ++k) sum += v[k];
    }
    mean = team.sum(sum) / static_cast<A>(width);
  }
  A squares = 0;
  for (std::int64_t i = team.lane * n; i < width; i += team.lanes * n) {
    A v[n];
    load(v, x + i);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      if constexpr (kind == NormKind::kLayerNorm) v[k] -= mean;
      squares = fma(v[k], v[k], squares);
    }
  }
  return {mean, A(1) / sqrt(team.sum(squares) / static_cast<A>(width) + epsilon)};
}

template <NormKind kind, int n, class A>
__device__ void center_and_scale(A (&v)[n], Statistics<A> row) {
#pragma unroll
  for (int k = 0; k < n; ++k) {
    if constexpr (kind == NormKind::kLayerNorm) v[k] -= row.mean;
    v[k] *= row.inverse;
  }
}

template <NormKind kind, int n, class T>
__device__ void apply(T* y, const T* x, const T* gain, const T* bias, std::int64_t width,
                      Statistics<Sum<T>> row, const Team<Sum<T>>& team) {
  using A = Sum<T>;
  for (std::int64_t i = team.lane * n; i < width; i += team.lanes * n) {
    A v[n], g[n];
    load(v, x + i);
    load(g, gain + i);
    center_and_scale<kind>(v, row);
    if constexpr (kind == NormKind::kLayerNorm) {
      A b[n];
      load(b, bias + i);
#pragma unroll
      for (int k = 0; k < n; ++k) v[k] = fma(v[k], g[k], b[k]);
    } else {
#pragma unroll
      for (int k = 0; k < n; ++k) v[k] *= g[k];
    }
    store(y + i, v);
  }
}

// Backward of a row, with v = (x - mean) inverse and d = dy gain:
//   dx = inverse (d - mean(d) - v mean(d v)) [+ dresidual],  mean(d) for LayerNorm only
// This lane's terms of the sums behind the means.
template <class A>
struct Slopes {
  A product;  // d v
  A shift;    // d
};
template <NormKind kind, int n, class T>
__device__ Slopes<Sum<T>> slopes(const T* dy, const T* x, const T* gain, std::int64_t width,
                                 Statistics<Sum<T>> row, int lane, int lanes) {
  using A = Sum<T>;
  Slopes<A> found{0, 0};
  for (std::int64_t i = lane * n; i < width; i += lanes * n) {
    A v[n], d[n], g[n];
    load(v, x + i);
    load(d, dy + i);
    load(g, gain + i);
    center_and_scale<kind>(v, row);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      d[k] *= g[k];
      found.product = fma(d[k], v[k], found.product);
      if constexpr (kind == NormKind::kLayerNorm) found.shift += d[k];
    }
  }
  return found;
}

// dx of n elements, and their contribution to the gradients of gain and bias. `means` are those of
// the whole row; dresidual may be absent.
template <NormKind kind, int n, class T>
__device__ void row_backward(T* dx, Sum<T> (&dgain)[n], Sum<T> (&dbias)[n], const T* dy, const T* x,
                             const Sum<T> (&gain)[n], const T* dresidual, Statistics<Sum<T>> row,
                             Slopes<Sum<T>> means) {
  using A = Sum<T>;
  A v[n], d[n];
  load(v, x);
  load(d, dy);
  center_and_scale<kind>(v, row);
#pragma unroll
  for (int k = 0; k < n; ++k) {
    dgain[k] = fma(d[k], v[k], dgain[k]);
    if constexpr (kind == NormKind::kLayerNorm) dbias[k] += d[k];
    d[k] = fma(v[k], -means.product, d[k] * gain[k]);
    if constexpr (kind == NormKind::kLayerNorm) d[k] -= means.shift;
    d[k] *= row.inverse;
  }
  if (dresidual) {
    A also[n];
    load(also, dresidual);
#pragma unroll
    for (int k = 0; k < n; ++k) d[k] += also[k];
  }
  store(dx, d);
}

}  // namespace trireme::ops::cuda
