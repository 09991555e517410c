#include "model/ops/cpu/gemm.h"

#include <cstring>

#include "model/ops/cpu/float8.h"
#include "model/ops/cpu/gemm_engine.h"
#include "model/ops/dispatch.h"

namespace trireme::ops::cpu {
namespace {

void copy_row(Tensor to, Tensor from) {
  if (to.dtype == from.dtype) {
    std::memcpy(to.data, from.data, from.bytes());
    return;
  }
  with_float(from.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t j = 0; j < from.count(); ++j)
      to.as<float>()[j] = static_cast<float>(from.as<T>()[j]);
  });
}

// An empty product is zero: an expert without tokens has a gradient too.
void empty_product(Tensor c, const Gemm& how) {
  if (how.accumulate == Accumulate::kAdd) return;
  std::memset(c.data, 0, c.bytes());
  if (!how.bias) return;
  for (std::int64_t i = 0; i < c.rows(); ++i) copy_row(c.row_slice(i, 1), how.bias);
}

}  // namespace

void gemm(Stream&, Tensor c, Tensor a, Tensor b, const Gemm& how) {
  if (a.count() == 0) return empty_product(c, how);
  MatMul product;
  product.shape.transpose_a = how.transpose_a;
  product.shape.transpose_b = how.transpose_b;
  product.shape.accumulate = how.accumulate;
  product.shape.bias = static_cast<bool>(how.bias);
  product.shape.in = a.dtype;
  product.shape.out = c.dtype;
  product.shape.m = c.rows();
  product.shape.n = c.width();
  product.shape.k = a.count() / c.rows();
  product.shape.lda = how.transpose_a ? c.rows() : product.shape.k;
  product.a = a.data;
  product.b = b.data;
  product.bias = how.bias.data;
  product.c = c.data;
  GemmEngine::instance().run(product);
}

void gemm_float8(Stream& stream, const Float8Gemm& product, Tensor wide_a, Tensor wide_b) {
  dequantize(stream, wide_a, product.a);
  dequantize(stream, wide_b, product.b);
  gemm(stream, product.c, wide_a, wide_b,
       {.transpose_b = true, .accumulate = product.accumulate, .bias = product.bias});
}

}  // namespace trireme::ops::cpu
