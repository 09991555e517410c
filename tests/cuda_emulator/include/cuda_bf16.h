#pragma once
// The part of CUDA's bfloat16 that the kernels use: the conversions of the instruction set.
#include <emulator/intrinsics.h>

struct __nv_bfloat16 {
  std::uint16_t bits;
};
using nv_bfloat16 = __nv_bfloat16;

// To nearest even; every NaN becomes the one NaN that the instruction gives.
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  const unsigned word = __float_as_uint(value);
  if (std::isnan(value)) return {0x7fff};
  return {static_cast<std::uint16_t>((word + 0x7fffu + (word >> 16 & 1)) >> 16)};
}
inline float __bfloat162float(__nv_bfloat16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) {
  return value.bits;
}
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  return {bits};
}
