#pragma once
// Included only by kernel sources; see vec.h. Operations missing in GCC's portable vectors, with
// the instructions of the target instruction set.
#include <cstdint>

#include "model/ops/cpu/simd/isa.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define TRIREME_INLINE inline __attribute__((always_inline))

namespace trireme::simd {
namespace {

#if defined(__AVX512F__)
inline constexpr Isa kIsa = Isa::kAvx512;
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr Isa kIsa = Isa::kAvx2;
inline constexpr int kVectorBytes = 32;
#else
inline constexpr Isa kIsa = Isa::kBaseline;
inline constexpr int kVectorBytes = 16;
#endif

typedef float VecF __attribute__((vector_size(kVectorBytes)));
typedef double VecD __attribute__((vector_size(kVectorBytes)));
typedef std::int32_t VecI __attribute__((vector_size(kVectorBytes)));
typedef std::int64_t VecL __attribute__((vector_size(kVectorBytes)));
typedef float HalfF __attribute__((vector_size(kVectorBytes / 2)));
typedef std::uint32_t Words __attribute__((vector_size(kVectorBytes)));
typedef std::int32_t HalfI __attribute__((vector_size(kVectorBytes / 2)));
typedef std::uint32_t HalfWords __attribute__((vector_size(kVectorBytes / 2)));
typedef std::uint16_t Shorts __attribute__((vector_size(kVectorBytes / 2)));
typedef std::uint16_t HalfShorts __attribute__((vector_size(kVectorBytes / 4)));

// a b + c, with one rounding if the machine has FMA. Always explicit, with the compiler's
// contraction off, so that an element's bits do not depend on the copy of a loop that computes it.
#if defined(__AVX512F__)
TRIREME_INLINE VecF fma(VecF a, VecF b, VecF c) {
  return (VecF)_mm512_fmadd_ps(a, b, c);
}
TRIREME_INLINE VecD fma(VecD a, VecD b, VecD c) {
  return (VecD)_mm512_fmadd_pd(a, b, c);
}
TRIREME_INLINE VecF sqrt(VecF a) {
  return (VecF)_mm512_maskz_sqrt_ps(0xffff, a);
}
TRIREME_INLINE VecD sqrt(VecD a) {
  return (VecD)_mm512_maskz_sqrt_pd(0xff, a);
}
#elif defined(__AVX2__)
TRIREME_INLINE VecF fma(VecF a, VecF b, VecF c) {
  return (VecF)_mm256_fmadd_ps(a, b, c);
}
TRIREME_INLINE VecD fma(VecD a, VecD b, VecD c) {
  return (VecD)_mm256_fmadd_pd(a, b, c);
}
TRIREME_INLINE VecF sqrt(VecF a) {
  return (VecF)_mm256_sqrt_ps(a);
}
TRIREME_INLINE VecD sqrt(VecD a) {
  return (VecD)_mm256_sqrt_pd(a);
}
#elif defined(__SSE2__)
TRIREME_INLINE VecF fma(VecF a, VecF b, VecF c) {
  return a * b + c;
}
TRIREME_INLINE VecD fma(VecD a, VecD b, VecD c) {
  return a * b + c;
}
TRIREME_INLINE VecF sqrt(VecF a) {
  return (VecF)_mm_sqrt_ps(a);
}
TRIREME_INLINE VecD sqrt(VecD a) {
  return (VecD)_mm_sqrt_pd(a);
}
#elif defined(__ARM_NEON)
TRIREME_INLINE VecF fma(VecF a, VecF b, VecF c) {
  return (VecF)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
TRIREME_INLINE VecD fma(VecD a, VecD b, VecD c) {
  return (VecD)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
TRIREME_INLINE VecF sqrt(VecF a) {
  return (VecF)vsqrtq_f32((float32x4_t)a);
}
TRIREME_INLINE VecD sqrt(VecD a) {
  return (VecD)vsqrtq_f64((float64x2_t)a);
}
#else
TRIREME_INLINE VecF fma(VecF a, VecF b, VecF c) {
  return a * b + c;
}
TRIREME_INLINE VecD fma(VecD a, VecD b, VecD c) {
  return a * b + c;
}
TRIREME_INLINE VecF sqrt(VecF a) {
  for (int i = 0; i < kVectorBytes / 4; ++i) a[i] = __builtin_sqrtf(a[i]);
  return a;
}
TRIREME_INLINE VecD sqrt(VecD a) {
  for (int i = 0; i < kVectorBytes / 8; ++i) a[i] = __builtin_sqrt(a[i]);
  return a;
}
#endif

// Clamps v from below, or from above; NaN stays NaN.
#if defined(__AVX512F__)
TRIREME_INLINE VecF at_least(VecF v, VecF low) {
  return (VecF)_mm512_maskz_max_ps(0xffff, low, v);
}
TRIREME_INLINE VecF at_most(VecF v, VecF high) {
  return (VecF)_mm512_maskz_min_ps(0xffff, high, v);
}
#elif defined(__AVX2__)
TRIREME_INLINE VecF at_least(VecF v, VecF low) {
  return (VecF)_mm256_max_ps(low, v);
}
TRIREME_INLINE VecF at_most(VecF v, VecF high) {
  return (VecF)_mm256_min_ps(high, v);
}
#elif defined(__SSE2__)
TRIREME_INLINE VecF at_least(VecF v, VecF low) {
  return (VecF)_mm_max_ps(low, v);
}
TRIREME_INLINE VecF at_most(VecF v, VecF high) {
  return (VecF)_mm_min_ps(high, v);
}
#else
TRIREME_INLINE VecF at_least(VecF v, VecF low) {
  return v < low ? low : v;
}
TRIREME_INLINE VecF at_most(VecF v, VecF high) {
  return v > high ? high : v;
}
#endif

// Widening and narrowing conversions. GCC 12 does not use the single instruction.
#if defined(__AVX512F__)
TRIREME_INLINE Words widened(Shorts v) {
  return (Words)_mm512_maskz_cvtepu16_epi32(0xffff, (__m256i)v);
}
TRIREME_INLINE HalfWords widened(HalfShorts v) {
  return (HalfWords)_mm256_cvtepu16_epi32((__m128i)v);
}
TRIREME_INLINE VecD widened(HalfF v) {
  return (VecD)_mm512_maskz_cvtps_pd(0xff, v);
}
TRIREME_INLINE Shorts narrowed(Words v) {
  return (Shorts)_mm512_maskz_cvtepi32_epi16(0xffff, (__m512i)v);
}
#elif defined(__AVX2__)
TRIREME_INLINE Words widened(Shorts v) {
  return (Words)_mm256_cvtepu16_epi32((__m128i)v);
}
TRIREME_INLINE HalfWords widened(HalfShorts v) {
  return __builtin_convertvector(v, HalfWords);
}
TRIREME_INLINE VecD widened(HalfF v) {
  return (VecD)_mm256_cvtps_pd(v);
}
TRIREME_INLINE Shorts narrowed(Words v) {
  const __m256i both = _mm256_packus_epi32((__m256i)v, (__m256i)v);
  return (Shorts)_mm256_castsi256_si128(_mm256_permute4x64_epi64(both, 0x08));
}
#else
TRIREME_INLINE Words widened(Shorts v) {
  return __builtin_convertvector(v, Words);
}
TRIREME_INLINE HalfWords widened(HalfShorts v) {
  return __builtin_convertvector(v, HalfWords);
}
TRIREME_INLINE VecD widened(HalfF v) {
  return __builtin_convertvector(v, VecD);
}
TRIREME_INLINE Shorts narrowed(Words v) {
  return __builtin_convertvector(v, Shorts);
}
#endif

// float16 to float32 and back, rounding to nearest even; NaN stays NaN.
#if defined(__AVX512F__)
TRIREME_INLINE VecF from_half(Shorts v) {
  return (VecF)_mm512_maskz_cvtph_ps(0xffff, (__m256i)v);
}
TRIREME_INLINE HalfF from_half(HalfShorts v) {
  return (HalfF)_mm256_cvtph_ps((__m128i)v);
}
TRIREME_INLINE Shorts to_half(VecF v) {
  return (Shorts)_mm512_maskz_cvtps_ph(0xffff, v, _MM_FROUND_TO_NEAREST_INT);
}
#elif defined(__AVX2__)
TRIREME_INLINE VecF from_half(Shorts v) {
  return (VecF)_mm256_cvtph_ps((__m128i)v);
}
TRIREME_INLINE HalfF from_half(HalfShorts v) {
  return (HalfF)_mm_cvtph_ps(_mm_cvtsi64_si128((long long)v));
}
TRIREME_INLINE Shorts to_half(VecF v) {
  return (Shorts)_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
}
#else
// As in model/base/half.h, elementwise.
template <class F, class I, class W>
TRIREME_INLINE F of_half_bits(W bits) {
  const W magnitude = bits & 0x7fffu;
  const I compared = (I)magnitude;
  const W small = (W)(__builtin_convertvector(compared, F) * 0x1p-24f);
  const W normal = (magnitude << 13) + 0x38000000u, special = magnitude << 13 | 0x7f800000u;
  const W word = compared < 0x400 ? small : compared < 0x7c00 ? normal : special;
  return (F)(word | (bits & 0x8000u) << 16);
}
TRIREME_INLINE VecF from_half(Shorts v) {
  return of_half_bits<VecF, VecI>(widened(v));
}
TRIREME_INLINE HalfF from_half(HalfShorts v) {
  return of_half_bits<HalfF, HalfI>(widened(v));
}
TRIREME_INLINE Shorts to_half(VecF v) {
  const Words word = (Words)v, magnitude = word & 0x7fffffffu, none{};
  const VecI compared = (VecI)magnitude;
  const Words small = (Words)((VecF)magnitude + 0.5f) - 0x3f000000u;
  const Words normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13;
  const Words finite = compared < 0x38800000 ? small : normal;
  const Words special = compared > 0x7f800000 ? none + 0x7e00u : none + 0x7c00u;
  return narrowed((compared < 0x477ff000 ? finite : special) | (word >> 16 & 0x8000u));
}
#endif

// a 2^n for an integer n between -252 and 254, with gradual underflow and overflow.
#if defined(__AVX512F__)
TRIREME_INLINE VecF scale_by_power(VecF a, VecF n) {
  return (VecF)_mm512_maskz_scalef_ps(0xffff, a, n);
}
#else
TRIREME_INLINE VecF scale_by_power(VecF a, VecF n) {
  // In two steps: 2^n itself may be out of range.
  const VecI whole = (VecI)(n + 12582912.0f) - 0x4b400000;
  const VecI half = whole >> 1;
  return a * (VecF)((half + 127) << 23) * (VecF)((whole - half + 127) << 23);
}
#endif

}  // namespace
}  // namespace trireme::simd
