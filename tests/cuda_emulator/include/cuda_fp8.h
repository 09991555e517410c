#pragma once
// The part of CUDA's float8 that the kernels use: the conversion of the instruction set.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include <emulator/vectors.h>

enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
using __nv_fp8x2_storage_t = unsigned short;

namespace trireme::emulator {

// Saturating, to nearest even, in units of the last place; every NaN becomes the one NaN that the
// instruction gives.
inline unsigned float8_code(float value, __nv_fp8_interpretation_t kind) {
  const int mantissa_bits = kind == __NV_E4M3 ? 3 : 2, bias = kind == __NV_E4M3 ? 7 : 15;
  const double largest = kind == __NV_E4M3 ? 448 : 57344;
  if (std::isnan(value)) return 0x7f;
  const unsigned sign = std::signbit(value) ? 0x80 : 0;
  const double magnitude = std::fmin(std::fabs(static_cast<double>(value)), largest);
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  const double units = std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));
  // A carry out of the mantissa goes into the exponent by itself.
  return sign | (static_cast<unsigned>(units) +
                 (static_cast<unsigned>(exponent + bias - 1) << mantissa_bits));
}

}  // namespace trireme::emulator

// The first number becomes the lower byte.
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 pair, __nv_saturation_t /*all*/,
                                                     __nv_fp8_interpretation_t kind) {
  const unsigned low = trireme::emulator::float8_code(pair.x, kind);
  const unsigned high = trireme::emulator::float8_code(pair.y, kind);
  return static_cast<__nv_fp8x2_storage_t>(low | high << 8);
}
