#pragma once
#include <string>

#include "model/device/memory.h"
#include "model/ops/cpu/matmul.h"

namespace trireme::ops::cpu {

// Matrix products by OpenBLAS. It has no product of bfloat16 in Debian 12 and none of float16:
// blocks of the factors are widened to float32, so the sums are float32 sums and only the
// result is rounded, as everywhere else.
class OpenBlas final : public MatMulLibrary {
 public:
  bool takes(const MatMulShape&) const override { return true; }
  // Version and the processor its kernels were picked for, e.g. "OpenBLAS 0.3.21 Cooperlake".
  std::string name() const override;
  void run(const MatMul& product) override;

 private:
  template <class T>
  void run_widened(const MatMul& product);
  Memory widened_;  // blocks of a, b and c; taken with the first product of 16-bit factors
};

}  // namespace trireme::ops::cpu
