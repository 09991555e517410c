#pragma once
// Included only by kernel sources: single instructions that C++ has no name for.
#include <cuda_runtime.h>

namespace trireme::ops::cuda {

// 2^value within two ulp; denormal results are zero.
__device__ __forceinline__ float power_of_two(float value) {
  float power = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(value));
  return power;
}

// 1 / value within one ulp; denormal results are zero.
__device__ __forceinline__ float inverse_of(float value) {
  float inverse = 0;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(value));
  return inverse;
}

// NaN is the largest.
__device__ __forceinline__ float larger(float a, float b) {
  float most = 0;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
  return most;
}
__device__ __forceinline__ double larger(double a, double b) {
  return b > a || b != b ? b : a;
}

}  // namespace trireme::ops::cuda
