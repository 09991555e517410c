// Included by kernel sources after targets.h, once per target. One row of a norm, for rows and
// for heads.
#if defined(TRIREME_OPS_CPU_SIMD_NORM_ROW) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_OPS_CPU_SIMD_NORM_ROW
#undef TRIREME_OPS_CPU_SIMD_NORM_ROW
#else
#define TRIREME_OPS_CPU_SIMD_NORM_ROW
#endif

#include "model/ops/cpu/simd/vec.h"
#include "model/ops/norm_kind.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class A>
struct Statistics {
  A mean, inverse;
};

// The gain with its offset; see ops/norm.h.
template <class T>
struct Gain {
  const T* first = nullptr;
  Accumulator<T> offset = 0;

  template <class Extent>
  HWY_INLINE Vec<Accumulator<T>> load_from(Extent some, std::int64_t i) const {
    return load(some, first + i) + spread(offset);
  }
};

template <NormKind kind, class T>
HWY_INLINE Statistics<Accumulator<T>> statistics(const T* x, std::int64_t width, double epsilon) {
  using A = Accumulator<T>;
  A mean = 0;
  if constexpr (kind == NormKind::kLayerNorm) {
    Sums<A> sums;
    each_vector<A>(width, [&](auto some, std::int64_t i, int k) { sums[k] += load(some, x + i); });
    mean = total(sums) / static_cast<A>(width);
  }
  Sums<A> squares;
  each_vector<A>(width, [&](auto some, std::int64_t i, int k) {
    Vec<A> v = load(some, x + i);
    if constexpr (kind == NormKind::kLayerNorm) v = keep<A>(some, v - spread(mean));
    squares[k] = MulAdd(v, v, squares[k]);
  });
  const double variance = static_cast<double>(total(squares)) / static_cast<double>(width);
  return {mean, static_cast<A>(1 / __builtin_sqrt(variance + epsilon))};
}

template <NormKind kind, class T>
HWY_INLINE void apply(T* y, const T* x, const Gain<T>& gain, const T* bias, std::int64_t width,
                      Statistics<Accumulator<T>> row) {
  using A = Accumulator<T>;
  each_vector<A>(width, [&](auto some, std::int64_t i, int) {
    Vec<A> v = load(some, x + i);
    if constexpr (kind == NormKind::kLayerNorm) v -= spread(row.mean);
    v *= spread(row.inverse);
    const Vec<A> g = gain.load_from(some, i);
    if constexpr (kind == NormKind::kLayerNorm) {
      store(some, y + i, MulAdd(v, g, bias ? load(some, bias + i) : zero<A>()));
    } else {
      store(some, y + i, v * g);
    }
  });
}

// dx of one row; accumulates the gradients of gain and, if given, bias.
//   n = (x - mean) inverse,  d = dy gain
//   dx = inverse (d - mean(d) - n mean(d n)) [+ dresidual],  mean(d) for LayerNorm only
template <NormKind kind, class T>
struct NormRowBackward {
  T* dx;
  Accumulator<T>*dgain, *dbias;
  const T *dy, *x;
  Gain<T> gain;
  const T* dresidual;
  std::int64_t width;
  Statistics<Accumulator<T>> row;

  template <class Extent>
  HWY_INLINE Vec<Accumulator<T>> normed(Extent some, std::int64_t i) const {
    Vec<Accumulator<T>> v = load(some, x + i);
    if constexpr (kind == NormKind::kLayerNorm) v -= spread(row.mean);
    return v * spread(row.inverse);
  }
  HWY_INLINE void run() const {
    using A = Accumulator<T>;
    Sums<A> sums, products;
    each_vector<A>(width, [&](auto some, std::int64_t i, int k) {
      const Vec<A> n = normed(some, i);
      const Vec<A> dy_i = load(some, dy + i);
      const Vec<A> d = dy_i * gain.load_from(some, i);
      products[k] = MulAdd(d, n, products[k]);
      store(some, dgain + i, MulAdd(dy_i, n, load(some, dgain + i)));
      if constexpr (kind == NormKind::kLayerNorm) {
        sums[k] += d;
        if (dbias) store(some, dbias + i, dy_i + load(some, dbias + i));
      }
    });
    const A slope = total(products) / static_cast<A>(width);
    const A shift = kind == NormKind::kLayerNorm ? total(sums) / static_cast<A>(width) : A(0);
    if (dresidual) {
      finish<true>(slope, shift);
    } else {
      finish<false>(slope, shift);
    }
  }
  template <bool kResidual>
  HWY_INLINE void finish(Accumulator<T> slope, Accumulator<T> shift) const {
    using A = Accumulator<T>;
    each_vector<A>(width, [&](auto some, std::int64_t i, int) {
      const Vec<A> d = load(some, dy + i) * gain.load_from(some, i);
      Vec<A> v = MulAdd(normed(some, i), spread(-slope), d);
      if constexpr (kind == NormKind::kLayerNorm) v -= spread(shift);
      v *= spread(row.inverse);
      if constexpr (kResidual) v += load(some, dresidual + i);
      store(some, dx + i, v);
    });
  }
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#endif
