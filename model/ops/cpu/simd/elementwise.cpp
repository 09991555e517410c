#include "model/ops/cpu/simd/elementwise.h"

#include "model/ops/cpu/simd/vec.h"

namespace trireme::simd {
namespace {

// Rounds to odd: rounding the result to bfloat16 or float16 then gives the value nearest to the
// double.
TRIREME_INLINE float to_odd(double wide) {
  const float near = static_cast<float>(wide);
  std::uint32_t word = 0;
  __builtin_memcpy(&word, &near, 4);
  if (static_cast<double>(near) == wide || wide != wide || (word & 1)) return near;
  word += __builtin_fabs(static_cast<double>(near)) > __builtin_fabs(wide) ? ~0u : 1u;
  float odd = 0;
  __builtin_memcpy(&odd, &word, 4);
  return odd;
}

}  // namespace

template <Isa isa, class T>
TRIREME_KERNEL void add(T* y, const T* a, const T* b, std::int64_t count) {
  each_vector<Sum<T>>(count, [&](auto some, std::int64_t i, int) {
    store(some, y + i, load(some, a + i) + load(some, b + i));
  });
}

template <Isa isa, class T>
TRIREME_KERNEL void accumulate(Sum<T>* to, const T* from, std::int64_t count) {
  using A = Sum<T>;
  each_vector<A>(count, [&](auto some, std::int64_t i, int) {
    store(some, to + i, load_as<A>(some, to + i) + load(some, from + i));
  });
}

template <Isa isa, class To, class From>
TRIREME_KERNEL void cast(To* to, const From* from, std::int64_t count) {
  if constexpr (sizeof(From) == 8 && sizeof(To) == 4) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
  } else if constexpr (sizeof(From) == 8 && sizeof(To) == 2) {
    for (std::int64_t i = 0; i < count; ++i) {
      VecF lane{};
      lane[0] = to_odd(from[i]);
      Convert<float>::store(Part{1}, to + i, lane);
    }
  } else {
    // Computes in the wider of the two types.
    using A = Sum<To>;
    each_vector<A>(count, [&](auto some, std::int64_t i, int) {
      Convert<A>::store(some, to + i, load_as<A>(some, from + i));
    });
  }
}

template <Isa isa, class T>
TRIREME_KERNEL double sum(const T* x, std::int64_t count) {
  VecD sums[4] = {};
  each_vector<double>(
      count, [&](auto some, std::int64_t i, int k) { sums[k] += load_as<double>(some, x + i); });
  return total<double>(sums);
}

template <Isa isa, class T>
TRIREME_KERNEL double sum_of_squares(const T* x, std::int64_t count) {
  VecD sums[4] = {};
  each_vector<double>(count, [&](auto some, std::int64_t i, int k) {
    const VecD v = load_as<double>(some, x + i);
    sums[k] = fma(v, v, sums[k]);
  });
  return total<double>(sums);
}

template <Isa isa, class T>
TRIREME_KERNEL void column_sums(const Columns<T>& op) {
  using A = Sum<T>;
  constexpr std::int64_t kBlock = 512, kRows = 8;
  for (std::int64_t first = 0; first < op.columns; first += kBlock) {
    const std::int64_t n = op.columns - first < kBlock ? op.columns - first : kBlock;
    // Eight rows at a time in A, whose sums are added in float64.
    double sums[kBlock] = {};
    A few[kBlock];
    std::int64_t row = 0;
    for (; row + kRows <= op.rows; row += kRows) {
      const T* x = op.x + row * op.stride + first;
      each_vector<A>(n, [&](auto some, std::int64_t i, int) {
        const auto at = [&](int r) { return load(some, x + r * op.stride + i); };
        const Vec<A> v = ((at(0) + at(1)) + (at(2) + at(3))) + ((at(4) + at(5)) + (at(6) + at(7)));
        Convert<A>::store(Full{}, few + i, v);
      });
      for (std::int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(few[i]);
    }
    for (; row < op.rows; ++row) {
      const T* x = op.x + row * op.stride + first;
      for (std::int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(one(x + i));
    }
    A* out = op.out + first;
    for (std::int64_t i = 0; i < n; ++i) {
      out[i] = static_cast<A>(op.add ? static_cast<double>(out[i]) + sums[i] : sums[i]);
    }
  }
}

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define TRIREME_INSTANCE(T)                                                 \
  template void add<kIsa, T>(T*, const T*, const T*, std::int64_t);         \
  template void accumulate<kIsa, T>(Sum<T>*, const T*, std::int64_t);       \
  template void cast<kIsa, float, T>(float*, const T*, std::int64_t);       \
  template void cast<kIsa, double, T>(double*, const T*, std::int64_t);     \
  template void cast<kIsa, Bf16Bits, T>(Bf16Bits*, const T*, std::int64_t); \
  template void cast<kIsa, F16Bits, T>(F16Bits*, const T*, std::int64_t);   \
  template double sum<kIsa, T>(const T*, std::int64_t);                     \
  template double sum_of_squares<kIsa, T>(const T*, std::int64_t);          \
  template void column_sums<kIsa, T>(const Columns<T>&);
// NOLINTEND(bugprone-macro-parentheses)
TRIREME_EACH_FLOAT(TRIREME_INSTANCE)

}  // namespace trireme::simd
