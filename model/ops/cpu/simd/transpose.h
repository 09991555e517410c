// Included by kernel sources after targets.h, once per target. Transposes between rows and
// vectors that have an element of each row.
#if defined(TRIREME_OPS_CPU_SIMD_TRANSPOSE) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_OPS_CPU_SIMD_TRANSPOSE
#undef TRIREME_OPS_CPU_SIMD_TRANSPOSE
#else
#define TRIREME_OPS_CPU_SIMD_TRANSPOSE
#endif

#include "model/ops/cpu/simd/vec.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

// Elements of A in 16 bytes, within which Highway interleaves.
template <class A>
constexpr int kQuad = kLanes<A> < 16 / static_cast<int>(sizeof(A))
                          ? kLanes<A>
                          : 16 / static_cast<int>(sizeof(A));

// kQuad elements of the rows first, first + kQuad, first + 2 kQuad, ...: one 16-byte part of the
// vector each. `row(i)` is a vector of the first kQuad elements of row i.
template <class D, class Row>
HWY_INLINE hn::Vec<D> gather_rows(D d, int first, const Row& row) {
  using A = hn::TFromD<D>;
  if constexpr (hn::MaxLanes(D()) == kQuad<A>) {
    return row(first);
  } else {
    const hn::Half<D> half;
    constexpr int kMiddle = static_cast<int>(hn::MaxLanes(D())) / 2;
    return Combine(d, gather_rows(half, first + kMiddle, row), gather_rows(half, first, row));
  }
}

// The first kQuad elements of kLanes rows as kQuad vectors: element j of row i is lane i of
// vector j.
template <class A, class Row>
HWY_INLINE void transpose(Vec<A> (&to)[kQuad<A>], const Row& row) {
  const Lanes<A> d;
  Vec<A> from[kQuad<A>];
#pragma GCC unroll 4
  for (int i = 0; i < kQuad<A>; ++i) from[i] = gather_rows(d, i, row);
  if constexpr (kQuad<A> == 4) {
    const Vec<A> low0 = InterleaveLower(d, from[0], from[2]);
    const Vec<A> high0 = InterleaveUpper(d, from[0], from[2]);
    const Vec<A> low1 = InterleaveLower(d, from[1], from[3]);
    const Vec<A> high1 = InterleaveUpper(d, from[1], from[3]);
    to[0] = InterleaveLower(d, low0, low1);
    to[1] = InterleaveUpper(d, low0, low1);
    to[2] = InterleaveLower(d, high0, high1);
    to[3] = InterleaveUpper(d, high0, high1);
  } else {
    to[0] = InterleaveLower(d, from[0], from[1]);
    to[1] = InterleaveUpper(d, from[0], from[1]);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#endif
