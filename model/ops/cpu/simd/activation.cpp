#include "model/ops/cpu/simd/activation.h"

#include "model/ops/cpu/simd/exp.h"

namespace trireme::simd {
namespace {

// gelu(x) = x/2 (1 + tanh(u)) = x sigmoid(2u), with 2u = kTwice (x + kCubic x^3).
constexpr double kTwice = 1.5957691216057307117598;  // 2 sqrt(2 / pi)
constexpr double kCubic = 0.044715;

template <class A>
TRIREME_INLINE Vec<A> twice_u(Vec<A> x) {
  return x * fma(x * x, spread(A(kTwice * kCubic)), spread(A(kTwice)));
}

}  // namespace

template <Isa isa, class T>
TRIREME_KERNEL void gelu(T* y, const T* x, std::int64_t count) {
  using A = Sum<T>;
  each_vector<A>(count, [&](auto some, std::int64_t i, int) {
    const Vec<A> v = load(some, x + i);
    store(some, y + i, v * sigmoid<A>(twice_u<A>(v)).value);
  });
}

template <Isa isa, class T>
TRIREME_KERNEL void gelu_backward(T* dx, const T* dy, const T* x, std::int64_t count) {
  using A = Sum<T>;
  each_vector<A>(count, [&](auto some, std::int64_t i, int) {
    const Vec<A> v = load(some, x + i);
    const Sigmoid<A> s = sigmoid<A>(twice_u<A>(v));
    // x d(2u)/dx, the factor of the sigmoid's derivative.
    const Vec<A> steep = v * fma(v * v, spread(A(3 * kTwice * kCubic)), spread(A(kTwice)));
    store(some, dx + i, load(some, dy + i) * fma(steep, s.slope, s.value));
  });
}

template <Isa isa, class T>
TRIREME_KERNEL void swiglu(T* y, const T* x, std::int64_t rows, std::int64_t width) {
  using A = Sum<T>;
  for (std::int64_t row = 0; row < rows; ++row, y += width, x += 2 * width) {
    each_vector<A>(width, [&](auto some, std::int64_t i, int) {
      const Vec<A> gate = load(some, x + i);
      store(some, y + i, gate * sigmoid<A>(gate).value * load(some, x + width + i));
    });
  }
}

template <Isa isa, class T>
TRIREME_KERNEL void swiglu_backward(T* dx, const T* dy, const T* x, std::int64_t rows,
                                    std::int64_t width) {
  using A = Sum<T>;
  for (std::int64_t row = 0; row < rows; ++row, dx += 2 * width, dy += width, x += 2 * width) {
    each_vector<A>(width, [&](auto some, std::int64_t i, int) {
      const Vec<A> gate = load(some, x + i), up = load(some, x + width + i);
      const Vec<A> d = load(some, dy + i);
      const Sigmoid<A> s = sigmoid<A>(gate);
      store(some, dx + i, d * up * fma(gate, s.slope, s.value));
      store(some, dx + width + i, d * gate * s.value);
    });
  }
}

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define TRIREME_INSTANCE(T)                                                   \
  template void gelu<kIsa, T>(T*, const T*, std::int64_t);                    \
  template void gelu_backward<kIsa, T>(T*, const T*, const T*, std::int64_t); \
  template void swiglu<kIsa, T>(T*, const T*, std::int64_t, std::int64_t);    \
  template void swiglu_backward<kIsa, T>(T*, const T*, const T*, std::int64_t, std::int64_t);
// NOLINTEND(bugprone-macro-parentheses)
TRIREME_EACH_FLOAT(TRIREME_INSTANCE)

}  // namespace trireme::simd
