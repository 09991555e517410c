// Included by kernel sources after targets.h, once per target. Activation functions.
#if defined(TRIREME_OPS_CPU_SIMD_ACTIVATION) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_OPS_CPU_SIMD_ACTIVATION
#undef TRIREME_OPS_CPU_SIMD_ACTIVATION
#else
#define TRIREME_OPS_CPU_SIMD_ACTIVATION
#endif

#include "model/ops/activation_constants.h"
#include "model/ops/activation_kind.h"
#include "model/ops/cpu/simd/exp.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

// act(x) = x value, with the derivative value + steep slope: x times that of value.
template <class A>
struct Multiplier {
  Vec<A> value, slope, steep;
};

// The normal distribution's function, within 3 ulp if a tail's exponential is exact, and its
// density.
template <class A>
HWY_INLINE Multiplier<A> normal(Vec<A> x) {
  if constexpr (std::is_same_v<A, float>) {
    const Vec<float> one = spread(1.0f), a = below(spread(kTailEnd), Abs(x));
    const Vec<float> t = one / MulAdd(a, spread(kTailScale), one);
    Vec<float> p = spread(kTail.coefficient[TailPolynomial::kDegree]);
    for (int k = TailPolynomial::kDegree - 1; k >= 0; --k) {
      p = MulAdd(p, t, spread(kTail.coefficient[k]));
    }
    const Vec<float> bell = exp<float>(a * a * spread(-0.5f));
    const Vec<float> tail = t * p * bell;
    return {IfThenElse(x < zero<float>(), tail, one - tail),
            bell * spread(static_cast<float>(kNormalPeak)), x};
  } else {
    // As exp of float64: the C library's.
    HWY_ALIGN double value[kLanes<double>], slope[kLanes<double>];
    Store(x, Lanes<double>(), value);
    for (int i = 0; i < kLanes<double>; ++i) {
      slope[i] = kNormalPeak * __builtin_exp(-0.5 * value[i] * value[i]);
      value[i] = 0.5 * __builtin_erfc(-kInverseRoot2 * value[i]);
    }
    return {Load(Lanes<double>(), value), Load(Lanes<double>(), slope), x};
  }
}

template <Activation kind, class A>
HWY_INLINE Multiplier<A> multiplier(Vec<A> x) {
  if constexpr (kind == Activation::kGelu) {
    return normal<A>(x);
  } else if constexpr (kind == Activation::kRelu2) {
    const Vec<A> one = spread(A(1));
    return {above(zero<A>(), x), IfThenElse(x > zero<A>(), one, zero<A>()), x};
  } else if constexpr (kind == Activation::kSilu) {
    const Sigmoid<A> s = sigmoid<A>(x);
    return {s.value, s.slope, x};
  } else {
    const Vec<A> twice = spread(A(kTwice)), square = x * x;
    const Sigmoid<A> s = sigmoid<A>(x * MulAdd(square, spread(A(kTwice * kCubic)), twice));
    return {s.value, s.slope, x * MulAdd(square, spread(A(3 * kTwice * kCubic)), twice)};
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#endif
