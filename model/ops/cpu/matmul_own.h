#pragma once
#include <string>

#include "model/device/memory.h"
#include "model/ops/cpu/matmul.h"

namespace trireme::ops::cpu {

// float32 products by our own kernels, in the selected instruction set. Each thread computes
// rectangles of c from panels it packs itself, without synchronization; the bits do not depend on
// the number of threads.
class OwnMatMul final : public MatMulLibrary {
 public:
  bool takes(const MatMulShape& shape) const override;
  // e.g. "trireme 1 avx512"
  std::string name() const override;
  void run(const MatMul& product) override { run_grouped({&product, 1}); }
  // Threads share the work evenly, whatever the products' sizes.
  void run_grouped(std::span<const MatMul> products) override;

 private:
  Memory workspace_;  // of all threads
};

}  // namespace trireme::ops::cpu
