#pragma once
#include <memory>
#include <string>

#include "model/ops/cpu/matmul.h"

namespace trireme::ops::cpu {

// Matrix products by oneDNN, whose kernels are JIT-compiled per shape, or for any number of a's
// rows in groups, and cached. float32, and bfloat16 if the processor supports it.
class OneDnn final : public MatMulLibrary {
 public:
  OneDnn();
  ~OneDnn() override;

  // Whether operands of this dtype have an optimized kernel here. Without AVX512_BF16 oneDNN's
  // bfloat16 product is several times slower than float32; without AVX-512, hundreds of times.
  static bool supports(DType factors);
  bool takes(const MatMulShape& shape) const override { return supports(shape.in); }
  // e.g. "oneDNN 2.6.3 e7"
  std::string name() const override;
  void run(const MatMul& product) override { run(product, product.shape); }
  void run_grouped(std::span<const MatMul> products) override;

 private:
  void run(const MatMul& product, const MatMulShape& compiled);
  struct Kernels;
  std::unique_ptr<Kernels> kernels_;
};

}  // namespace trireme::ops::cpu
