#pragma once
#include <emulator/keywords.h>

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a number stands for a row of that many
  constexpr dim3(unsigned along_x, unsigned along_y = 1, unsigned along_z = 1)
      : x(along_x), y(along_y), z(along_z) {}
};

struct __align__(8) float2 {
  float x, y;
};
struct __align__(16) float4 {
  float x, y, z, w;
};
struct __align__(16) double2 {
  double x, y;
};
struct __align__(8) int2 {
  int x, y;
};
struct __align__(16) int4 {
  int x, y, z, w;
};
struct __align__(8) uint2 {
  unsigned x, y;
};
struct __align__(16) uint4 {
  unsigned x, y, z, w;
};

inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
inline double2 make_double2(double x, double y) {
  return {x, y};
}
inline int4 make_int4(int x, int y, int z, int w) {
  return {x, y, z, w};
}
inline uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}

// Of the thread that runs; the emulator sets them when it turns to a thread.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
inline uint3 threadIdx, blockIdx;
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
inline dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;
