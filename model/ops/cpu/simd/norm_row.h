#pragma once
// Included only by kernel sources; see vec.h. One row of a norm, for rows and for heads.
#include "model/ops/cpu/simd/vec.h"
#include "model/ops/norm_kind.h"

namespace trireme::simd {
namespace {

template <class A>
struct Statistics {
  A mean, inverse;
};

template <NormKind kind, class T>
TRIREME_INLINE Statistics<Sum<T>> statistics(const T* x, std::int64_t width, double epsilon) {
  using A = Sum<T>;
  A mean = 0;
  if constexpr (kind == NormKind::kLayerNorm) {
    Vec<A> sums[4] = {};
    each_vector<A>(width, [&](auto some, std::int64_t i, int k) { sums[k] += load(some, x + i); });
    mean = total<A>(sums) / static_cast<A>(width);
  }
  Vec<A> squares[4] = {};
  each_vector<A>(width, [&](auto some, std::int64_t i, int k) {
    Vec<A> v = load(some, x + i);
    if constexpr (kind == NormKind::kLayerNorm) v = keep<A>(some, v - mean);
    squares[k] = fma(v, v, squares[k]);
  });
  const double variance = static_cast<double>(total<A>(squares)) / static_cast<double>(width);
  return {mean, static_cast<A>(1 / __builtin_sqrt(variance + epsilon))};
}

template <NormKind kind, class T>
TRIREME_INLINE void apply(T* y, const T* x, const T* gain, const T* bias, std::int64_t width,
                          Statistics<Sum<T>> row) {
  using A = Sum<T>;
  each_vector<A>(width, [&](auto some, std::int64_t i, int) {
    Vec<A> v = load(some, x + i);
    if constexpr (kind == NormKind::kLayerNorm) v -= row.mean;
    v *= row.inverse;
    const Vec<A> g = load(some, gain + i);
    if constexpr (kind == NormKind::kLayerNorm) {
      store(some, y + i, fma(v, g, load(some, bias + i)));
    } else {
      store(some, y + i, v * g);
    }
  });
}

// dx of one row; accumulates the gradients of gain and bias.
//   n = (x - mean) inverse,  d = dy gain
//   dx = inverse (d - mean(d) - n mean(d n)) [+ dresidual],  mean(d) for LayerNorm only
template <NormKind kind, class T>
struct NormRowBackward {
  T* dx;
  Sum<T>*dgain, *dbias;
  const T *dy, *x, *gain, *dresidual;
  std::int64_t width;
  Statistics<Sum<T>> row;

  template <class Extent>
  TRIREME_INLINE Vec<Sum<T>> normed(Extent some, std::int64_t i) const {
    Vec<Sum<T>> v = load(some, x + i);
    if constexpr (kind == NormKind::kLayerNorm) v -= row.mean;
    return v * row.inverse;
  }
  TRIREME_INLINE void run() const {
    using A = Sum<T>;
    Vec<A> sums[4] = {}, products[4] = {};
    each_vector<A>(width, [&](auto some, std::int64_t i, int k) {
      const Vec<A> n = normed(some, i);
      const Vec<A> dy_i = load(some, dy + i);
      const Vec<A> d = dy_i * load(some, gain + i);
      products[k] = fma(d, n, products[k]);
      store(some, dgain + i, fma(dy_i, n, load(some, dgain + i)));
      if constexpr (kind == NormKind::kLayerNorm) {
        sums[k] += d;
        store(some, dbias + i, dy_i + load(some, dbias + i));
      }
    });
    const A slope = total<A>(products) / static_cast<A>(width);
    const A shift = kind == NormKind::kLayerNorm ? total<A>(sums) / static_cast<A>(width) : A(0);
    if (dresidual) {
      finish<true>(slope, shift);
    } else {
      finish<false>(slope, shift);
    }
  }
  template <bool kResidual>
  TRIREME_INLINE void finish(Sum<T> slope, Sum<T> shift) const {
    using A = Sum<T>;
    each_vector<A>(width, [&](auto some, std::int64_t i, int) {
      const Vec<A> d = load(some, dy + i) * load(some, gain + i);
      Vec<A> v = fma(normed(some, i), spread<A>(-slope), d);
      if constexpr (kind == NormKind::kLayerNorm) v -= shift;
      v *= row.inverse;
      if constexpr (kResidual) v += load(some, dresidual + i);
      store(some, dx + i, v);
    });
  }
};

}  // namespace
}  // namespace trireme::simd
