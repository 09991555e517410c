#pragma once
// Included only by kernel sources. One row of a norm, for rows and for heads; n elements at once.
#include "model/ops/cuda/magnitudes.cuh"
#include "model/ops/cuda/reduce.cuh"
#include "model/ops/cuda/values.cuh"
#include "model/ops/norm_kind.h"

namespace trireme::ops::cuda {

template <class A>
struct Statistics {
  A mean, inverse;
};

// A lane's packs of a row. The first kHeld stay in registers, and their loads are in flight
// together; those that only wider rows have are loaded again for each pass.
template <int kHeld, int n, class T>
struct HeldRow {
  Pack<T, n> held[kHeld];
  const T* row;
  int width, lane, lanes;

  __device__ HeldRow(const T* from, std::int64_t row_width, const Team<Sum<T>>& team)
      : row(from), width(static_cast<int>(row_width)), lane(team.lane), lanes(team.lanes) {
#pragma unroll
    for (int p = 0; p < kHeld; ++p) {
      if (column(p) < width) held[p] = pack_at<n>(row + column(p));
    }
  }
  __device__ int column(int p) const {
    return (p * lanes + lane) * n;
  }

  // Calls body(values, first column) for each pack.
  template <class Body>
  __device__ void each(const Body& body) const {
    Sum<T> v[n];
#pragma unroll
    for (int p = 0; p < kHeld; ++p) {
      if (column(p) >= width) continue;
      widen(v, held[p]);
      body(v, column(p));
    }
    for (int i = column(kHeld); i < width; i += lanes * n) {
      load(v, row + i);
      body(v, i);
    }
  }

  // Adds `other` and writes the sum to `to`, which becomes the row.
  __device__ void add(const HeldRow& other, T* to) {
    Sum<T> v[n], w[n];
    const auto add_pack = [&](int i) {
#pragma unroll
      for (int k = 0; k < n; ++k) v[k] += w[k];
      store(to + i, v);
    };
#pragma unroll
    for (int p = 0; p < kHeld; ++p) {
      if (column(p) >= width) continue;
      widen(v, held[p]);
      widen(w, other.held[p]);
      add_pack(column(p));
      held[p] = packed<T>(v);
    }
    for (int i = column(kHeld); i < width; i += lanes * n) {
      load(v, row + i);
      load(w, other.row + i);
      add_pack(i);
    }
    row = to;
  }
};

template <NormKind kind, int kHeld, int n, class T>
__device__ Statistics<Sum<T>> statistics(const HeldRow<kHeld, n, T>& x, Sum<T> epsilon,
                                         Team<Sum<T>>& team) {
  using A = Sum<T>;
  A mean = 0;
  if constexpr (kind == NormKind::kLayerNorm) {
    A sum = 0;
    x.each([&](const A(&v)[n], int) {
#pragma unroll
      for (int k = 0; k < n; ++k) sum += v[k];
    });
    mean = team.sum(sum) / static_cast<A>(x.width);
  }
  A squares = 0;
  x.each([&](A(&v)[n], int) {
#pragma unroll
    for (int k = 0; k < n; ++k) {
      if constexpr (kind == NormKind::kLayerNorm) v[k] -= mean;
      squares = fma(v[k], v[k], squares);
    }
  });
  return {mean, A(1) / sqrt(team.sum(squares) / static_cast<A>(x.width) + epsilon)};
}

template <NormKind kind, int n, class A>
__device__ void center_and_scale(A (&v)[n], Statistics<A> row) {
#pragma unroll
  for (int k = 0; k < n; ++k) {
    if constexpr (kind == NormKind::kLayerNorm) v[k] -= row.mean;
    v[k] *= row.inverse;
  }
}

// Gains with their offset; see ops/norm.h.
template <int n, class T>
__device__ void widen_gain(Sum<T> (&to)[n], const Pack<T, n>& gain, Sum<T> offset) {
  widen(to, gain);
#pragma unroll
  for (int k = 0; k < n; ++k) to[k] += offset;
}

// Returns a lane's largest magnitude of y.
template <NormKind kind, bool kCollects, int kHeld, int n, class T>
__device__ LargestMagnitude<kCollects> apply(T* y, const HeldRow<kHeld, n, T>& x, const T* gain,
                                             Sum<T> offset, const T* bias, Statistics<Sum<T>> row) {
  using A = Sum<T>;
  LargestMagnitude<kCollects> largest;
  x.each([&](A(&v)[n], int i) {
    A g[n];
    widen_gain(g, pack_at<n>(gain + i), offset);
    center_and_scale<kind>(v, row);
    if constexpr (kind == NormKind::kLayerNorm) {
      A b[n] = {};
      if (bias) load(b, bias + i);
#pragma unroll
      for (int k = 0; k < n; ++k) v[k] = fma(v[k], g[k], b[k]);
    } else {
#pragma unroll
      for (int k = 0; k < n; ++k) v[k] *= g[k];
    }
    largest.add(store(y + i, v));
  });
  return largest;
}

// Backward of a row, with v = (x - mean) inverse and d = dy (gain + offset):
//   dx = inverse (d - mean(d) - v mean(d v)) [+ dresidual],  mean(d) for LayerNorm only
template <class A>
struct Slopes {
  A product;  // d v
  A shift;    // d
};
// Adds the terms of the sums behind the means.
template <NormKind kind, int n, class T>
__device__ void add_slopes(Slopes<Sum<T>>& found, const Pack<T, n>& dy, const Pack<T, n>& x,
                           const Pack<T, n>& gain, Sum<T> offset, Statistics<Sum<T>> row) {
  Sum<T> v[n], d[n], g[n];
  widen(v, x);
  widen(d, dy);
  widen_gain(g, gain, offset);
  center_and_scale<kind>(v, row);
#pragma unroll
  for (int k = 0; k < n; ++k) {
    d[k] *= g[k];
    found.product = fma(d[k], v[k], found.product);
    if constexpr (kind == NormKind::kLayerNorm) found.shift += d[k];
  }
}

// dx, without dresidual, in place of dy; `means` are those of the whole row.
template <NormKind kind, int n, class T>
__device__ void row_backward(Sum<T> (&dy)[n], const Sum<T> (&v)[n], const Pack<T, n>& gain,
                             Sum<T> offset, Statistics<Sum<T>> row, Slopes<Sum<T>> means) {
  Sum<T> g[n];
  widen_gain(g, gain, offset);
#pragma unroll
  for (int k = 0; k < n; ++k) {
    dy[k] = fma(v[k], -means.product, dy[k] * g[k]);
    if constexpr (kind == NormKind::kLayerNorm) dy[k] -= means.shift;
    dy[k] *= row.inverse;
  }
}

// Sums of n columns in packs that are `apart` packs from each other.
template <int n, class A>
struct ColumnSums {
  static constexpr int kPack = n * sizeof(A) < 16 ? n : 16 / static_cast<int>(sizeof(A));
  static constexpr int kPacks = n / kPack;
  using P = Pack<A, kPack>;
  P* first;
  int apart;

  __device__ A operator[](int k) const { return first[k / kPack * apart].words[k % kPack]; }
  // Replaces each sum by body(index, sum).
  template <class Body>
  __device__ void update(const Body& body) const {
#pragma unroll
    for (int q = 0; q < kPacks; ++q) {
      P pack = first[q * apart];
#pragma unroll
      for (int k = 0; k < kPack; ++k) pack.words[k] = body(q * kPack + k, pack.words[k]);
      first[q * apart] = pack;
    }
  }
  __device__ void clear() const {
    update([](int, A) { return A(0); });
  }
};

}  // namespace trireme::ops::cuda
