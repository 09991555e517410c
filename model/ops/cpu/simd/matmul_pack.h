#pragma once
// Included only by kernel sources; see vec.h.
#include "model/ops/cpu/simd/vec.h"

namespace trireme::simd {
namespace {

inline constexpr int kLane = kLanes<float>;

TRIREME_INLINE std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

// Interleaves the lower, or upper, halves of a and b.
TRIREME_INLINE VecF low_turns(VecF a, VecF b) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
#elif defined(__AVX2__)
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#else
  return __builtin_shufflevector(a, b, 0, 4, 1, 5);
#endif
}
TRIREME_INLINE VecF high_turns(VecF a, VecF b) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
#elif defined(__AVX2__)
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  return __builtin_shufflevector(a, b, 2, 6, 3, 7);
#endif
}

// Transposes a square block by log2(kLane) rounds of interleaving.
TRIREME_INLINE void transpose(VecF (&rows)[kLane]) {
#pragma GCC unroll 4
  for (int step = 1; step < kLane; step *= 2) {
    VecF next[kLane];
#pragma GCC unroll 8
    for (int i = 0; i < kLane / 2; ++i) {
      next[2 * i] = low_turns(rows[i], rows[i + kLane / 2]);
      next[2 * i + 1] = high_turns(rows[i], rows[i + kLane / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLane; ++i) rows[i] = next[i];
  }
}

// Packs `count` of kWidth vectors of length k, `ld` apart, as k rows of kWidth, zero-padded. May
// write up to kLane elements beyond the end.
template <int kWidth>
TRIREME_INLINE void pack_across(float* to, const float* from, std::int64_t ld, std::int64_t count,
                                std::int64_t k) {
  for (int first = 0; first < kWidth; first += kLane) {
    const std::int64_t valid = smaller(count - first, kLane);
    const float* source = from + first * ld;
    float* target = to + first;
    std::int64_t p = 0;
    for (; p + kLane <= k; p += kLane) {
      VecF rows[kLane];
      if (valid >= kLane || valid == kWidth) {
#pragma GCC unroll 16
        for (int i = 0; i < kLane; ++i)
          rows[i] = i < kWidth ? read<VecF>(Full{}, source + i * ld + p) : VecF{};
      } else {
        for (int i = 0; i < kLane; ++i)
          rows[i] = i < valid ? read<VecF>(Full{}, source + i * ld + p) : VecF{};
      }
      transpose(rows);
#pragma GCC unroll 16
      for (int i = 0; i < kLane; ++i) write(Full{}, target + (p + i) * kWidth, rows[i]);
    }
    const int width = kWidth < kLane ? kWidth : kLane;
    for (; p < k; ++p)
      for (int i = 0; i < width; ++i) target[p * kWidth + i] = i < valid ? source[i * ld + p] : 0;
  }
}

// Same for adjacent vectors whose elements are `ld` apart.
template <int kWidth>
TRIREME_INLINE void pack_along(float* to, const float* from, std::int64_t ld, std::int64_t count,
                               std::int64_t k) {
  if (count >= kWidth) {
    for (std::int64_t p = 0; p < k; ++p)
      __builtin_memcpy(to + p * kWidth, from + p * ld, sizeof(float) * kWidth);
    return;
  }
  for (std::int64_t p = 0; p < k; ++p)
    for (std::int64_t i = 0; i < kWidth; ++i) to[p * kWidth + i] = i < count ? from[p * ld + i] : 0;
}

// Selects one of the two: vectors are `to_vector` apart, their elements `to_element`.
template <int kWidth>
__attribute__((noinline, flatten)) void pack(float* to, const float* from, std::int64_t to_vector,
                                             std::int64_t to_element, std::int64_t count,
                                             std::int64_t k) {
  if (to_vector == 1)
    pack_along<kWidth>(to, from, to_element, count, k);
  else
    pack_across<kWidth>(to, from, to_vector, count, k);
}

}  // namespace
}  // namespace trireme::simd
