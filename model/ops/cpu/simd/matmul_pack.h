// Included by matmul.cpp, once per target.
#if defined(TRIREME_OPS_CPU_SIMD_MATMUL_PACK) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_OPS_CPU_SIMD_MATMUL_PACK
#undef TRIREME_OPS_CPU_SIMD_MATMUL_PACK
#else
#define TRIREME_OPS_CPU_SIMD_MATMUL_PACK
#endif

#include "model/ops/cpu/simd/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

inline constexpr int kLane = kLanes<float>;

HWY_INLINE std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

// Packs `count` of kWidth vectors of length k, `ld` apart, as k rows of kWidth, zero-padded. May
// write up to kLane elements beyond the end.
template <int kWidth>
HWY_INLINE void pack_across(float* to, const float* from, std::int64_t ld, std::int64_t count,
                            std::int64_t k) {
  constexpr int kPart = kQuad<float>;
  const hn::CappedTag<float, kPart> part;
  for (int first = 0; first < kWidth; first += kLane) {
    const std::int64_t valid = smaller(count - first, kLane);
    const float* source = from + first * ld;
    float* target = to + first;
    const bool whole = valid >= kLane || valid == kWidth;
    std::int64_t p = 0;
    for (; p + kPart <= k; p += kPart) {
      Vec<float> rows[kPart];
      if (whole) {
        transpose<float>(rows, [&](int i) {
          return i < kWidth ? LoadU(part, source + i * ld + p) : Zero(part);
        });
      } else {
        transpose<float>(
            rows, [&](int i) { return i < valid ? LoadU(part, source + i * ld + p) : Zero(part); });
      }
#pragma GCC unroll 4
      for (int i = 0; i < kPart; ++i) StoreU(rows[i], Lanes<float>(), target + (p + i) * kWidth);
    }
    const int width = kWidth < kLane ? kWidth : kLane;
    for (; p < k; ++p)
      for (int i = 0; i < width; ++i) target[p * kWidth + i] = i < valid ? source[i * ld + p] : 0;
  }
}

// Same for adjacent vectors whose elements are `ld` apart.
template <int kWidth>
HWY_INLINE void pack_along(float* to, const float* from, std::int64_t ld, std::int64_t count,
                           std::int64_t k) {
  if (count >= kWidth) {
    for (std::int64_t p = 0; p < k; ++p)
      std::memcpy(to + p * kWidth, from + p * ld, sizeof(float) * kWidth);
    return;
  }
  for (std::int64_t p = 0; p < k; ++p)
    for (std::int64_t i = 0; i < kWidth; ++i) to[p * kWidth + i] = i < count ? from[p * ld + i] : 0;
}

// Selects one of the two: vectors are `to_vector` apart, their elements `to_element`.
template <int kWidth>
TRIREME_KERNEL void pack(float* to, const float* from, std::int64_t to_vector,
                         std::int64_t to_element, std::int64_t count, std::int64_t k) {
  if (to_vector == 1)
    pack_along<kWidth>(to, from, to_element, count, k);
  else
    pack_across<kWidth>(to, from, to_vector, count, k);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#endif
