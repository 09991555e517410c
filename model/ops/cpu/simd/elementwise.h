// Included by kernel sources after targets.h, once per target. Rows of elements, for several
// ops.
#if defined(TRIREME_OPS_CPU_SIMD_ELEMENTWISE) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_OPS_CPU_SIMD_ELEMENTWISE
#undef TRIREME_OPS_CPU_SIMD_ELEMENTWISE
#else
#define TRIREME_OPS_CPU_SIMD_ELEMENTWISE
#endif

#include "model/ops/cpu/simd/vec.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class T>
TRIREME_KERNEL void add_range(T* y, const T* a, const T* b, std::int64_t count) {
  each_vector<Accumulator<T>>(count, [&](auto some, std::int64_t i, int) {
    store(some, y + i, load(some, a + i) + load(some, b + i));
  });
}

template <class T>
TRIREME_KERNEL void scale_range(T* y, const T* x, double factor, std::int64_t count) {
  using A = Accumulator<T>;
  each_vector<A>(count, [&](auto some, std::int64_t i, int) {
    store(some, y + i, load(some, x + i) * spread(static_cast<A>(factor)));
  });
}

// to += from, in the accumulator type of T.
template <class T>
TRIREME_KERNEL void accumulate_range(Accumulator<T>* to, const T* from, std::int64_t count) {
  each_vector<Accumulator<T>>(count, [&](auto some, std::int64_t i, int) {
    store(some, to + i, load(some, to + i) + load(some, from + i));
  });
}

// Rounds to odd: rounding the result to bfloat16 or float16 then gives the value nearest to the
// double.
HWY_INLINE float to_odd(double wide) {
  const float near = static_cast<float>(wide);
  std::uint32_t word = 0;
  std::memcpy(&word, &near, 4);
  if (static_cast<double>(near) == wide || wide != wide || (word & 1)) return near;
  word += __builtin_fabs(static_cast<double>(near)) > __builtin_fabs(wide) ? ~0u : 1u;
  float odd = 0;
  std::memcpy(&odd, &word, 4);
  return odd;
}

template <class To, class From>
TRIREME_KERNEL void cast_range(To* to, const From* from, std::int64_t count) {
  if constexpr (sizeof(From) == 8 && sizeof(To) == 4) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
  } else if constexpr (sizeof(From) == 8 && sizeof(To) == 2) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = To(to_odd(from[i]));
  } else {
    // Computes in the wider of the two types.
    using A = Accumulator<To>;
    each_vector<A>(count, [&](auto some, std::int64_t i, int) {
      store(some, to + i, load_as<A>(some, from + i));
    });
  }
}

// Sums in float64; the order of additions depends only on `count` and the target.
template <class T>
TRIREME_KERNEL double sum_of(const T* x, std::int64_t count) {
  Sums<double> sums;
  each_vector<double>(
      count, [&](auto some, std::int64_t i, int k) { sums[k] += load_as<double>(some, x + i); });
  return total(sums);
}

template <class T>
TRIREME_KERNEL double sum_of_squares(const T* x, std::int64_t count) {
  Sums<double> sums;
  each_vector<double>(count, [&](auto some, std::int64_t i, int k) {
    const Vec<double> v = load_as<double>(some, x + i);
    sums[k] = MulAdd(v, v, sums[k]);
  });
  return total(sums);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#endif
