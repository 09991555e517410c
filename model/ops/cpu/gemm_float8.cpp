#include "model/ops/cpu/gemm_float8.h"

#include "model/ops/cpu/float8.h"
#include "model/ops/cpu/gemm.h"

namespace trireme::ops::cpu {

void gemm_float8(Stream& stream, const Float8Gemm& product, Tensor wide_a, Tensor wide_b) {
  dequantize(stream, wide_a, product.a);
  dequantize(stream, wide_b, product.b);
  gemm(stream, product.c, wide_a, wide_b,
       {.transpose_b = true, .accumulate = product.accumulate, .bias = product.bias});
}

}  // namespace trireme::ops::cpu
