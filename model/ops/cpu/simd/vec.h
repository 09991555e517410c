// Included by kernel sources after targets.h, once per target. Vectors are Highway's; here are
// the loads, stores and loops that kernels share.
#if defined(TRIREME_OPS_CPU_SIMD_VEC) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_OPS_CPU_SIMD_VEC
#undef TRIREME_OPS_CPU_SIMD_VEC
#else
#define TRIREME_OPS_CPU_SIMD_VEC
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "model/ops/cpu/kernels.h"

// Kernels are flat: all callees, including lambdas, are inlined.
#define TRIREME_KERNEL HWY_FLATTEN HWY_NOINLINE

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class A>
using Lanes = hn::ScalableTag<A>;
template <class A>
using Vec = hn::Vec<Lanes<A>>;
template <class A>
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Lanes<A>()));
// As many lanes as vectors of A have, of T.
template <class T, class A>
using LanesLike = hn::Rebind<T, Lanes<A>>;

// Extent of an access: a full vector, or the first n lanes at the end of a row, the others reading
// zero.
struct Full {};
struct Part {
  std::int64_t n;
};

// Calls body(extent, i, k) for vectors that cover [0, n) in order; k cycles through 0 to 3, for
// bodies with four independent accumulators.
template <class A, class Body>
HWY_INLINE void each_vector(std::int64_t n, const Body& body) {
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
HWY_INLINE Vec<A> spread(A value) {
  return Set(Lanes<A>(), value);
}
template <class A>
HWY_INLINE Vec<A> zero() {
  return Zero(Lanes<A>());
}

template <class D>
HWY_INLINE hn::Vec<D> read(D d, Full, const hn::TFromD<D>* p) {
  return LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> read(D d, Part part, const hn::TFromD<D>* p) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(D())] = {};
  std::memcpy(lanes, p, static_cast<std::size_t>(part.n) * sizeof *p);
  return Load(d, lanes);
#else
  return MaskedLoad(FirstN(d, static_cast<std::size_t>(part.n)), d, p);
#endif
}
template <class D>
HWY_INLINE void write(D d, Full, hn::TFromD<D>* p, hn::Vec<D> v) {
  StoreU(v, d, p);
}
template <class D>
HWY_INLINE void write(D d, Part part, hn::TFromD<D>* p, hn::Vec<D> v) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(D())];
  Store(v, d, lanes);
  std::memcpy(p, lanes, static_cast<std::size_t>(part.n) * sizeof *p);
#else
  BlendedStore(v, FirstN(d, static_cast<std::size_t>(part.n)), d, p);
#endif
}

// 16-bit floats in registers. Highway rounds bfloat16 towards zero, and its float16 without
// instructions for it knows neither infinity nor NaN.
template <class T>
struct Half;
template <>
struct Half<Bf16> {
  template <class D>
  static HWY_INLINE hn::Vec<D> widened(D d, hn::Vec<hn::Rebind<std::uint16_t, D>> bits) {
    return BitCast(d, hn::ShiftLeft<16>(PromoteTo(hn::Rebind<std::uint32_t, D>(), bits)));
  }
  // Rounds to nearest even; NaN stays NaN.
  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, D>> narrowed(D, hn::Vec<D> v) {
    const hn::Rebind<std::uint32_t, D> words;
    const auto word = BitCast(words, v), upper = hn::ShiftRight<16>(word);
    const auto nearest = hn::ShiftRight<16>(word + Set(words, 0x7fff) + And(upper, Set(words, 1)));
    const auto quiet = Or(upper, Set(words, 0x40));
    return TruncateTo(hn::Rebind<std::uint16_t, D>(),
                      IfThenElse(RebindMask(words, IsNaN(v)), quiet, nearest));
  }
};
template <>
struct Half<F16> {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON
  template <class D>
  static HWY_INLINE hn::Vec<D> widened(D d, hn::Vec<hn::Rebind<std::uint16_t, D>> bits) {
    return PromoteTo(d, BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
  }
  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, D>> narrowed(D, hn::Vec<D> v) {
    return BitCast(hn::Rebind<std::uint16_t, D>(), DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
  }
#else
  // As in model/base/half.h, elementwise.
  template <class D>
  static HWY_INLINE hn::Vec<D> widened(D d, hn::Vec<hn::Rebind<std::uint16_t, D>> bits) {
    const hn::Rebind<std::uint32_t, D> words;
    const hn::Rebind<std::int32_t, D> ints;
    const auto wide = PromoteTo(words, bits), magnitude = And(wide, Set(words, 0x7fff));
    const auto shifted = hn::ShiftLeft<13>(magnitude);
    const auto compared = BitCast(ints, magnitude);
    const auto small = BitCast(words, ConvertTo(d, compared) * Set(d, 0x1p-24f));
    const auto normal = shifted + Set(words, 0x38000000);
    const auto special = Or(shifted, Set(words, 0x7f800000));
    const auto word =
        IfThenElse(RebindMask(words, compared < Set(ints, 0x400)), small,
                   IfThenElse(RebindMask(words, compared < Set(ints, 0x7c00)), normal, special));
    return BitCast(d, Or(word, hn::ShiftLeft<16>(And(wide, Set(words, 0x8000)))));
  }
  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, D>> narrowed(D d, hn::Vec<D> v) {
    const hn::Rebind<std::uint32_t, D> words;
    const hn::Rebind<std::int32_t, D> ints;
    const auto word = BitCast(words, v), magnitude = And(word, Set(words, 0x7fffffff));
    const auto compared = BitCast(ints, magnitude);
    const auto small =
        BitCast(words, BitCast(d, magnitude) + Set(d, 0.5f)) - Set(words, 0x3f000000);
    const auto odd = And(hn::ShiftRight<13>(magnitude), Set(words, 1));
    const auto normal =
        hn::ShiftRight<13>(magnitude + Set(words, 0xfff) + odd - Set(words, 0x38000000));
    const auto finite =
        IfThenElse(RebindMask(words, compared < Set(ints, 0x38800000)), small, normal);
    const auto special = IfThenElse(RebindMask(words, compared > Set(ints, 0x7f800000)),
                                    Set(words, 0x7e00), Set(words, 0x7c00));
    const auto bits =
        IfThenElse(RebindMask(words, compared < Set(ints, 0x477ff000)), finite, special);
    const auto sign = And(hn::ShiftRight<16>(word), Set(words, 0x8000));
    return TruncateTo(hn::Rebind<std::uint16_t, D>(), Or(bits, sign));
  }
#endif
};

// Loads a vector of T and converts to its accumulator type, or to A; zeros outside a Part.
template <class A, class Extent, class T>
HWY_INLINE Vec<A> load_as(Extent some, const T* p) {
  const Lanes<A> d;
  if constexpr (std::is_same_v<A, T>) {
    return read(d, some, p);
  } else if constexpr (std::is_same_v<T, float>) {
    return PromoteTo(d, read(LanesLike<float, A>(), some, p));
  } else {
    const LanesLike<float, A> floats;
    const auto bits =
        read(LanesLike<std::uint16_t, A>(), some, reinterpret_cast<const std::uint16_t*>(p));
    if constexpr (std::is_same_v<A, float>) {
      return Half<T>::widened(floats, bits);
    } else {
      return PromoteTo(d, Half<T>::widened(floats, bits));
    }
  }
}
template <class Extent, class T>
HWY_INLINE Vec<Accumulator<T>> load(Extent some, const T* p) {
  return load_as<Accumulator<T>>(some, p);
}
template <class Extent, class T>
HWY_INLINE void store(Extent some, T* p, Vec<Accumulator<T>> v) {
  const Lanes<Accumulator<T>> d;
  if constexpr (kIsAccumulator<T>) {
    write(d, some, p, v);
  } else {
    write(LanesLike<std::uint16_t, float>(), some, reinterpret_cast<std::uint16_t*>(p),
          Half<T>::narrowed(d, v));
  }
}

// v with zeros, or `other`, outside the extent.
template <class A>
HWY_INLINE Vec<A> keep(Full, Vec<A> v, A = 0) {
  return v;
}
template <class A>
HWY_INLINE Vec<A> keep(Part part, Vec<A> v, A other = 0) {
  return IfThenElse(FirstN(Lanes<A>(), static_cast<std::size_t>(part.n)), v, spread(other));
}

// a > b ? a : b, and a < b ? a : b: b if either is NaN.
template <class V>
HWY_INLINE V above(V a, V b) {
#if HWY_ARCH_X86
  return Max(a, b);
#else
  return IfThenElse(a > b, a, b);
#endif
}
template <class V>
HWY_INLINE V below(V a, V b) {
#if HWY_ARCH_X86
  return Min(a, b);
#else
  return IfThenElse(a < b, a, b);
#endif
}

// Four independent accumulators.
template <class A>
struct Sums {
  Vec<A> part[4];
  HWY_INLINE explicit Sums(Vec<A> start = zero<A>()) : part{start, start, start, start} {}
  HWY_INLINE Vec<A>& operator[](int k) { return part[k]; }
};
// Sum of all their lanes, as a fixed tree.
template <class A>
HWY_INLINE A total(const Sums<A>& sums) {
  HWY_ALIGN A lanes[kLanes<A>];
  Store((sums.part[0] + sums.part[1]) + (sums.part[2] + sums.part[3]), Lanes<A>(), lanes);
  for (int step = kLanes<A> / 2; step; step /= 2) {
    for (int i = 0; i < step; ++i) lanes[i] += lanes[i + step];
  }
  return lanes[0];
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#endif
