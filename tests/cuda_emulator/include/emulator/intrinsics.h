#pragma once
// CUDA's functions for single numbers.
#include <math.h>  // with every overload outside std too, as CUDA has them

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

namespace trireme::emulator {
template <class To, class From>
To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}
}  // namespace trireme::emulator

using std::max;  // NOLINT(google-global-names-in-headers): CUDA has them there
using std::min;  // NOLINT(google-global-names-in-headers)

inline float __uint_as_float(unsigned bits) {
  return trireme::emulator::same_bits<float>(bits);
}
inline unsigned __float_as_uint(float value) {
  return trireme::emulator::same_bits<unsigned>(value);
}
inline float __int_as_float(int bits) {
  return trireme::emulator::same_bits<float>(bits);
}
inline int __float_as_int(float value) {
  return trireme::emulator::same_bits<int>(value);
}
// Towards zero.
inline double __longlong_as_double(long long bits) {
  return trireme::emulator::same_bits<double>(bits);
}
inline long long __double_as_longlong(double value) {
  return trireme::emulator::same_bits<long long>(value);
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline double __dadd_rn(double a, double b) {
  return a + b;
}
inline double __dmul_rn(double a, double b) {
  return a * b;
}
inline double __ddiv_rn(double a, double b) {
  return a / b;
}
inline double __dsqrt_rn(double value) {
  return std::sqrt(value);
}
inline float __double2float_rz(double value) {
  const auto nearest = static_cast<float>(value);
  if (std::fabs(static_cast<double>(nearest)) <= std::fabs(value) || std::isnan(value)) {
    return nearest;
  }
  return std::nextafter(nearest, 0.0f);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}
inline int __popc(unsigned bits) {
  return __builtin_popcount(bits);
}
inline int __clz(int bits) {
  return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits));
}
inline int __ffs(int bits) {
  return __builtin_ffs(bits);
}
inline float rsqrtf(float value) {
  return 1 / std::sqrt(value);
}
inline double rsqrt(double value) {
  return 1 / std::sqrt(value);
}
inline float __expf(float value) {
  return std::exp(value);
}
inline float __logf(float value) {
  return std::log(value);
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline float __frcp_rn(float value) {
  return 1 / value;
}
inline float __saturatef(float value) {
  return value < 0 || std::isnan(value) ? 0 : std::min(value, 1.0f);
}
// Threads run one at a time.
inline int atomicAdd(int* at, int by) {
  return std::exchange(*at, *at + by);
}
inline int atomicMax(int* at, int value) {
  return std::exchange(*at, std::max(*at, value));
}
template <class T>
T __ldg(const T* from) {
  return *from;
}
