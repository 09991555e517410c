#include "model/ops/activation.h"

#define HWY_TARGET_INCLUDE "model/ops/cpu/activation.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/device/cpu/threads.h"
#include "model/ops/cpu/simd/exp.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

using trireme::cpu::parallel_for;

constexpr std::int64_t kActivationGrain = 4096;  // one exponential per element

// gelu(x) = x/2 (1 + tanh(u)) = x sigmoid(2u), with 2u = kTwice (x + kCubic x^3).
constexpr double kTwice = 1.5957691216057307117598;  // 2 sqrt(2 / pi)
constexpr double kCubic = 0.044715;

template <class A>
HWY_INLINE Vec<A> twice_u(Vec<A> x) {
  return x * MulAdd(x * x, spread(A(kTwice * kCubic)), spread(A(kTwice)));
}

template <class T>
TRIREME_KERNEL void gelu_range(T* y, const T* x, std::int64_t count) {
  using A = Accumulator<T>;
  each_vector<A>(count, [&](auto some, std::int64_t i, int) {
    const Vec<A> v = load(some, x + i);
    store(some, y + i, v * sigmoid<A>(twice_u<A>(v)).value);
  });
}

template <class T>
TRIREME_KERNEL void gelu_backward_range(T* dx, const T* dy, const T* x, std::int64_t count) {
  using A = Accumulator<T>;
  each_vector<A>(count, [&](auto some, std::int64_t i, int) {
    const Vec<A> v = load(some, x + i);
    const Sigmoid<A> s = sigmoid<A>(twice_u<A>(v));
    // x d(2u)/dx, the factor of the sigmoid's derivative.
    const Vec<A> steep = v * MulAdd(v * v, spread(A(3 * kTwice * kCubic)), spread(A(kTwice)));
    store(some, dx + i, load(some, dy + i) * MulAdd(steep, s.slope, s.value));
  });
}

// Each row of x has gate and up, `width` elements each.
template <class T>
TRIREME_KERNEL void swiglu_rows(T* y, const T* x, std::int64_t rows, std::int64_t width) {
  using A = Accumulator<T>;
  for (std::int64_t row = 0; row < rows; ++row, y += width, x += 2 * width) {
    each_vector<A>(width, [&](auto some, std::int64_t i, int) {
      const Vec<A> gate = load(some, x + i);
      store(some, y + i, gate * sigmoid<A>(gate).value * load(some, x + width + i));
    });
  }
}

template <class T>
TRIREME_KERNEL void swiglu_backward_rows(T* dx, const T* dy, const T* x, std::int64_t rows,
                                         std::int64_t width) {
  using A = Accumulator<T>;
  for (std::int64_t row = 0; row < rows; ++row, dx += 2 * width, dy += width, x += 2 * width) {
    each_vector<A>(width, [&](auto some, std::int64_t i, int) {
      const Vec<A> gate = load(some, x + i), up = load(some, x + width + i);
      const Vec<A> d = load(some, dy + i);
      const Sigmoid<A> s = sigmoid<A>(gate);
      store(some, dx + i, d * up * MulAdd(gate, s.slope, s.value));
      store(some, dx + width + i, d * gate * s.value);
    });
  }
}

void gelu(Tensor y, Tensor x) {
  with_float(x.dtype, [&]<class T>(T) {
    parallel_for(x.count(), kActivationGrain, [&](std::int64_t first, std::int64_t last) {
      gelu_range(y.as<T>() + first, x.as<T>() + first, last - first);
    });
  });
}

void gelu_backward(Tensor dx, Tensor dy, Tensor x) {
  with_float(x.dtype, [&]<class T>(T) {
    parallel_for(x.count(), kActivationGrain, [&](std::int64_t first, std::int64_t last) {
      gelu_backward_range(dx.as<T>() + first, dy.as<T>() + first, x.as<T>() + first, last - first);
    });
  });
}

void swiglu(Tensor y, Tensor x) {
  const std::int64_t width = y.width();
  with_float(x.dtype, [&]<class T>(T) {
    parallel_for(y.rows(), kActivationGrain / width + 1,
                 [&](std::int64_t first, std::int64_t last) {
                   swiglu_rows(y.as<T>() + first * width, x.as<T>() + first * 2 * width,
                               last - first, width);
                 });
  });
}

void swiglu_backward(Tensor dx, Tensor dy, Tensor x) {
  const std::int64_t width = dy.width();
  with_float(x.dtype, [&]<class T>(T) {
    parallel_for(dy.rows(), kActivationGrain / width + 1,
                 [&](std::int64_t first, std::int64_t last) {
                   swiglu_backward_rows(dx.as<T>() + first * 2 * width, dy.as<T>() + first * width,
                                        x.as<T>() + first * 2 * width, last - first, width);
                 });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(gelu);
HWY_EXPORT(gelu_backward);
HWY_EXPORT(swiglu);
HWY_EXPORT(swiglu_backward);

void gelu(Stream&, Tensor y, Tensor x) {
  HWY_DYNAMIC_DISPATCH(gelu)(y, x);
}
void gelu_backward(Stream&, Tensor dx, Tensor dy, Tensor x) {
  HWY_DYNAMIC_DISPATCH(gelu_backward)(dx, dy, x);
}
void swiglu(Stream&, Tensor y, Tensor x) {
  HWY_DYNAMIC_DISPATCH(swiglu)(y, x);
}
void swiglu_backward(Stream&, Tensor dx, Tensor dy, Tensor x) {
  HWY_DYNAMIC_DISPATCH(swiglu_backward)(dx, dy, x);
}

}  // namespace trireme::ops::cpu
#endif
