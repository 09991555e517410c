#pragma once
// The part of CUDA's float16 that the kernels use: the conversions of the instruction set.
#include <emulator/intrinsics.h>

#include "model/base/half.h"

struct __half {
  std::uint16_t bits;
};

// To nearest even; every NaN becomes the one NaN that the instruction gives.
inline __half __float2half_rn(float value) {
  if (std::isnan(value)) return {0x7fff};
  return {trireme::half_bits(value)};
}
inline float __half2float(__half value) {
  return trireme::half_value(value.bits);
}
inline unsigned short __half_as_ushort(__half value) {
  return value.bits;
}
inline __half __ushort_as_half(unsigned short bits) {
  return {bits};
}
