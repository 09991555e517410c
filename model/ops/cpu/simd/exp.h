// Included by kernel sources after targets.h, once per target.
#if defined(TRIREME_OPS_CPU_SIMD_EXP) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_OPS_CPU_SIMD_EXP
#undef TRIREME_OPS_CPU_SIMD_EXP
#else
#define TRIREME_OPS_CPU_SIMD_EXP
#endif

#include "model/ops/cpu/simd/vec.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

// a 2^n for an integer n between -252 and 254, with gradual underflow and overflow.
HWY_INLINE Vec<float> scale_by_power(Vec<float> a, Vec<float> n) {
#if HWY_TARGET == HWY_AVX3
  return Vec<float>{_mm512_scalef_ps(a.raw, n.raw)};
#else
  // In two steps: 2^n itself may be out of range.
  const Lanes<float> floats;
  const Lanes<std::int32_t> ints;
  const auto whole = BitCast(ints, n + Set(floats, 12582912.0f)) - Set(ints, 0x4b400000);
  const auto half = hn::ShiftRight<1>(whole), bias = Set(ints, 127);
  return a * BitCast(floats, hn::ShiftLeft<23>(half + bias)) *
         BitCast(floats, hn::ShiftLeft<23>(whole - half + bias));
#endif
}

// e^x within 1 ulp over the whole range; zero, infinity and NaN as std::exp. x = n ln 2 + r with ln
// 2 in two parts (Cody and Waite), and the minimax polynomial of Cephes for e^r on |r| <= ln 2 / 2.
template <class A>
HWY_INLINE Vec<A> exp(Vec<A> x) {
  if constexpr (std::is_same_v<A, float>) {
    x = above(spread(-105.0f), below(spread(89.0f), x));  // same results beyond
    const Vec<float> rounder = spread(12582912.0f);  // 1.5 2^23: adding it rounds to an integer
    const Vec<float> n = MulAdd(x, spread(1.44269504088896341f), rounder) - rounder;
    Vec<float> r = MulAdd(n, spread(-0.693359375f), x);
    r = MulAdd(n, spread(2.12194440e-4f), r);
    Vec<float> p = spread(1.9875691500e-4f);
    p = MulAdd(p, r, spread(1.3981999507e-3f));
    p = MulAdd(p, r, spread(8.3334519073e-3f));
    p = MulAdd(p, r, spread(4.1665795894e-2f));
    p = MulAdd(p, r, spread(1.6666665459e-1f));
    p = MulAdd(p, r, spread(5.0000001201e-1f));
    return scale_by_power(MulAdd(p, r * r, r) + spread(1.0f), n);
  } else {
    // float64 is the reference of tests and gradient checks: use the C library.
    HWY_ALIGN double lanes[kLanes<double>];
    Store(x, Lanes<double>(), lanes);
    for (double& lane : lanes) lane = __builtin_exp(lane);
    return Load(Lanes<double>(), lanes);
  }
}

// tanh x within 2 ulp; infinity and NaN as std::tanh. The minimax polynomial of Cephes for small x.
template <class A>
HWY_INLINE Vec<A> tanh(Vec<A> x) {
  if constexpr (std::is_same_v<A, float>) {
    const Vec<float> square = x * x, one = spread(1.0f), two = spread(2.0f);
    Vec<float> p = spread(-5.70498872745e-3f);
    p = MulAdd(p, square, spread(2.06390887954e-2f));
    p = MulAdd(p, square, spread(-5.37397155531e-2f));
    p = MulAdd(p, square, spread(1.33314422036e-1f));
    p = MulAdd(p, square, spread(-3.33332819422e-1f));
    const Vec<float> small = MulAdd(p * square, x, x), size = Abs(x);
    const Vec<float> large = one - two / (exp<float>(two * size) + one);
    return IfThenElse(size < spread(0.625f), small, CopySign(large, x));
  } else {
    HWY_ALIGN double lanes[kLanes<double>];
    Store(x, Lanes<double>(), lanes);
    for (double& lane : lanes) lane = __builtin_tanh(lane);
    return Load(Lanes<double>(), lanes);
  }
}

// 1 / (1 + e^-x) and its derivative, without overflow.
template <class A>
struct Sigmoid {
  Vec<A> value, slope;
};
template <class A>
HWY_INLINE Sigmoid<A> sigmoid(Vec<A> x) {
  const Vec<A> one = spread(A(1)), z = exp<A>(Neg(Abs(x)));
  const Vec<A> inverse = one / (one + z);
  const Vec<A> small = z * inverse;
  return {IfThenElse(x < zero<A>(), small, inverse), small * inverse};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#endif
