#pragma once
#include "model/ops/float8.h"

namespace trireme::ops::cpu {

// `parts` is used by CUDA only.
void quantize(Stream&, const Quantization& op, Tensor parts);

// See kMagnitudes.
void collect_magnitudes(Tensor magnitudes, const Tensor& stored);

// to [rows, columns] bfloat16, which represents every value exactly.
void dequantize(Stream&, Tensor to, const Float8Matrix& from);

}  // namespace trireme::ops::cpu
