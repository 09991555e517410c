#pragma once
// Included only by kernel sources. They are compiled for several instruction sets, so only the
// kernels themselves may have external linkage, and no header with inline functions may be included
// except <cstdint>.
#include <cstdint>

#include "model/ops/cpu/simd/target.h"

// Kernels are flat: all callees, including lambdas, are inlined.
#define TRIREME_KERNEL __attribute__((flatten))

namespace trireme::simd {
namespace {

template <class A>
struct VecOf;
template <>
struct VecOf<float> {
  using Type = VecF;
  using Bits = VecI;
  static constexpr std::int32_t kSign = INT32_MIN;
};
template <>
struct VecOf<double> {
  using Type = VecD;
  using Bits = VecL;
  static constexpr std::int64_t kSign = INT64_MIN;
};
template <class A>
using Vec = typename VecOf<A>::Type;
template <class A>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(A));

// Extent of an access: a full vector, or the first n lanes at the end of a row, the others reading
// zero.
struct Full {};
struct Part {
  std::int64_t n;
};

// Calls body(extent, i, k) for vectors that cover [0, n) in order; k cycles through 0 to 3, for
// bodies with four independent accumulators.
template <class A, class Body>
TRIREME_INLINE void each_vector(std::int64_t n, const Body& body) {
  constexpr std::int64_t kStep = kLanes<A>;
  std::int64_t i = 0;
  for (; i + 4 * kStep <= n; i += 4 * kStep) {
    body(Full{}, i, 0);
    body(Full{}, i + kStep, 1);
    body(Full{}, i + 2 * kStep, 2);
    body(Full{}, i + 3 * kStep, 3);
  }
  for (; i + kStep <= n; i += kStep) body(Full{}, i, 0);
  if (i < n) body(Part{n - i}, i, 1);
}

template <class A>
TRIREME_INLINE Vec<A> spread(A value) {
  return value - Vec<A>{};
}

template <class V, class T>
TRIREME_INLINE V read(Full, const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class V, class T>
TRIREME_INLINE V read(Part part, const T* p) {
  V v{};
  __builtin_memcpy(&v, p, static_cast<std::size_t>(part.n) * sizeof(T));
  return v;
}
template <class V, class T>
TRIREME_INLINE void write(Full, T* p, V v) {
  __builtin_memcpy(p, &v, sizeof v);
}
template <class V, class T>
TRIREME_INLINE void write(Part part, T* p, V v) {
  __builtin_memcpy(p, &v, static_cast<std::size_t>(part.n) * sizeof(T));
}

TRIREME_INLINE float widen(Bf16Bits bits) {
  const std::uint32_t word = std::uint32_t{bits} << 16;
  float value = 0;
  __builtin_memcpy(&value, &word, 4);
  return value;
}
TRIREME_INLINE float widen(float value) {
  return value;
}
TRIREME_INLINE double widen(double value) {
  return value;
}

template <class A>
struct Convert;
template <>
struct Convert<float> {
  template <class Extent>
  static TRIREME_INLINE VecF load(Extent some, const float* p) {
    return read<VecF>(some, p);
  }
  template <class Extent>
  static TRIREME_INLINE VecF load(Extent some, const Bf16Bits* p) {
    return (VecF)(widened(read<Shorts>(some, p)) << 16);
  }
  template <class Extent>
  static TRIREME_INLINE VecF load(Extent some, const F16Bits* p) {
    return from_half(read<Shorts>(some, p));
  }
  template <class Extent>
  static TRIREME_INLINE void store(Extent some, float* p, VecF v) {
    write(some, p, v);
  }
  template <class Extent>
  static TRIREME_INLINE void store(Extent some, Bf16Bits* p, VecF v) {
    write(some, p, narrow(v));
  }
  template <class Extent>
  static TRIREME_INLINE void store(Extent some, F16Bits* p, VecF v) {
    write(some, p, to_half(v));
  }
  // Rounds to nearest even; NaN stays NaN.
  static TRIREME_INLINE Shorts narrow(VecF v) {
    const Words word = (Words)v, upper = word >> 16;
    const Words nearest = (word + 0x7fffu + (upper & 1)) >> 16;
    return narrowed(v != v ? upper | 0x40 : nearest);
  }
};
template <>
struct Convert<double> {
  template <class Extent>
  static TRIREME_INLINE VecD load(Extent some, const double* p) {
    return read<VecD>(some, p);
  }
  template <class Extent>
  static TRIREME_INLINE VecD load(Extent some, const float* p) {
    return widened(read<HalfF>(some, p));
  }
  template <class Extent>
  static TRIREME_INLINE VecD load(Extent some, const Bf16Bits* p) {
    return widened((HalfF)(widened(read<HalfShorts>(some, p)) << 16));
  }
  template <class Extent>
  static TRIREME_INLINE VecD load(Extent some, const F16Bits* p) {
    return widened(from_half(read<HalfShorts>(some, p)));
  }
  template <class Extent>
  static TRIREME_INLINE void store(Extent some, double* p, VecD v) {
    write(some, p, v);
  }
};

// Loads a vector of T and converts to its accumulator type; zeros outside a Part.
template <class A, class Extent, class T>
TRIREME_INLINE Vec<A> load_as(Extent some, const T* p) {
  return Convert<A>::load(some, p);
}
template <class Extent, class T>
TRIREME_INLINE Vec<Sum<T>> load(Extent some, const T* p) {
  return Convert<Sum<T>>::load(some, p);
}
template <class Extent, class T>
TRIREME_INLINE void store(Extent some, T* p, Vec<Sum<T>> v) {
  Convert<Sum<T>>::store(some, p, v);
}
// v rounded to T and back.
template <class T>
TRIREME_INLINE Vec<Sum<T>> rounded(Vec<Sum<T>> v) {
  return v;
}
template <>
TRIREME_INLINE VecF rounded<Bf16Bits>(VecF v) {
  return (VecF)(widened(Convert<float>::narrow(v)) << 16);
}
template <>
TRIREME_INLINE VecF rounded<F16Bits>(VecF v) {
  return from_half(to_half(v));
}

template <class A>
TRIREME_INLINE A one(const A* p) {
  return *p;
}
TRIREME_INLINE float one(const Bf16Bits* p) {
  return widen(*p);
}
TRIREME_INLINE float one(const F16Bits* p) {
  return load(Part{1}, p)[0];
}

// v with zeros, or `other`, outside the extent.
template <class A>
TRIREME_INLINE Vec<A> keep(Full, Vec<A> v, A = 0) {
  return v;
}
template <class A>
TRIREME_INLINE Vec<A> keep(Part part, Vec<A> v, A other = 0) {
  A lanes[kLanes<A>];
  __builtin_memcpy(lanes, &v, sizeof v);
  for (std::int64_t i = part.n; i < kLanes<A>; ++i) lanes[i] = other;
  __builtin_memcpy(&v, lanes, sizeof v);
  return v;
}

// Sum of all lanes of four accumulators, as a fixed tree.
template <class A>
TRIREME_INLINE A total(const Vec<A> (&sums)[4]) {
  const Vec<A> v = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  A lanes[kLanes<A>];
  __builtin_memcpy(lanes, &v, sizeof v);
  for (int step = kLanes<A> / 2; step; step /= 2) {
    for (int i = 0; i < step; ++i) lanes[i] += lanes[i + step];
  }
  return lanes[0];
}

// The maximum; NaN if either is NaN.
template <class V>
TRIREME_INLINE V larger(V a, V b) {
  return ((b > a) | (b != b)) ? b : a;
}

template <class A>
TRIREME_INLINE Vec<A> magnitude(Vec<A> v) {
  using Bits = typename VecOf<A>::Bits;
  return (Vec<A>)((Bits)v & ~VecOf<A>::kSign);
}

}  // namespace
}  // namespace trireme::simd

// Instantiates a source's kernels for the target instruction set.
#define TRIREME_EACH_FLOAT(instance) \
  instance(float) instance(double) instance(Bf16Bits) instance(F16Bits)
