#pragma once
// Included only by kernel sources; see vec.h.
#include "model/ops/cpu/simd/vec.h"

namespace trireme::simd {
namespace {

// e^x within 1 ulp over the whole range; zero, infinity and NaN as std::exp. x = n ln 2 + r with ln
// 2 in two parts (Cody and Waite), and the minimax polynomial of Cephes for e^r on |r| <= ln 2 / 2.
TRIREME_INLINE VecF exp(VecF x) {
  x = at_least(at_most(x, spread(89.0f)), spread(-105.0f));  // same results beyond
  constexpr float kRounder = 12582912.0f;  // 1.5 2^23: adding it rounds to an integer
  const VecF n = fma(x, spread(1.44269504088896341f), spread(kRounder)) - kRounder;
  VecF r = fma(n, spread(-0.693359375f), x);
  r = fma(n, spread(2.12194440e-4f), r);
  VecF p = spread(1.9875691500e-4f);
  p = fma(p, r, spread(1.3981999507e-3f));
  p = fma(p, r, spread(8.3334519073e-3f));
  p = fma(p, r, spread(4.1665795894e-2f));
  p = fma(p, r, spread(1.6666665459e-1f));
  p = fma(p, r, spread(5.0000001201e-1f));
  return scale_by_power(fma(p, r * r, r) + 1.0f, n);
}

// float64 is the reference of tests and gradient checks: use the C library.
TRIREME_INLINE VecD exp(VecD x) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = __builtin_exp(x[i]);
  return x;
}

// 1 / (1 + e^-x) and its derivative, without overflow.
template <class A>
struct Sigmoid {
  Vec<A> value, slope;
};
template <class A>
TRIREME_INLINE Sigmoid<A> sigmoid(Vec<A> x) {
  const Vec<A> z = exp(-magnitude<A>(x));
  const Vec<A> inverse = A(1) / (A(1) + z);
  const Vec<A> small = z * inverse;
  return {x < 0 ? small : inverse, small * inverse};
}

}  // namespace
}  // namespace trireme::simd
