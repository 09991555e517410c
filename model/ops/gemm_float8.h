#pragma once
#include <string>

#include "model/device/devices.h"
#include "model/ops/float8.h"
#include "model/ops/into.h"

namespace trireme::ops {

// c = a b^T, or c += a b^T, with a [m, k] and b [n, k], not both E5M2, and c [m, n] bfloat16 or
// float32. The bias is added to every row of a c in bfloat16 that is replaced.
struct Float8Gemm {
  Tensor c;
  Float8Matrix a, b;
  Into into = Into::kReplace;
  Tensor bias = {};  // [n] bfloat16, or none
};

// Summed in float32, but for the terms that a device adds at once, of which Hopper keeps some 14
// bits (DeepSeek-AI 2024, "DeepSeek-V3", 3.3.2). The CPU, which has no such products, multiplies
// the exact values in bfloat16, for which it takes `scratch`: to look at the numbers, not for
// speed.
void gemm_float8(Stream&, Arena& scratch, const Float8Gemm& product);

// Throws EnvironmentError where the device has no such products.
void require_float8(Device device);
// Why it has none, for people; empty where it has.
std::string why_no_float8(const DeviceProperties& device);

}  // namespace trireme::ops
