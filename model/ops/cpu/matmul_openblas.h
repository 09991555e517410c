#pragma once
#include <string>

#include "model/device/memory.h"
#include "model/ops/cpu/matmul.h"

namespace trireme::ops::cpu {

// Matrix products by OpenBLAS. In Debian 12 it has no bfloat16 or float16 product: blocks of the
// operands are widened to float32, so accumulation is in float32 and only the result is rounded, as
// in the other implementations.
class OpenBlas final : public MatMulLibrary {
 public:
  bool takes(const MatMulShape&) const override { return true; }
  // Version and the processor type of its kernels, e.g. "OpenBLAS 0.3.21 Cooperlake".
  std::string name() const override;
  void run(const MatMul& product) override;

 private:
  Memory widened_;  // blocks of a, b and c; allocated by the first 16-bit product
};

}  // namespace trireme::ops::cpu
