#pragma once
#include <memory>
#include <string>

#include "model/ops/cpu/matmul.h"

namespace trireme::ops::cpu {

// Matrix products by oneDNN, whose kernels are compiled at run time for one
// shape and kept. float32, and bfloat16 where the processor has it.
class OneDnn {
 public:
  OneDnn();
  OneDnn(const OneDnn&) = delete;
  OneDnn& operator=(const OneDnn&) = delete;
  ~OneDnn();

  void run(const MatMul& product);
  // Whether factors of this dtype have a real kernel here. Without AVX512_BF16 oneDNN's
  // bfloat16 product is several times slower than float32; without AVX-512, hundreds.
  static bool supports(DType factors);
  // Version and instruction set, e.g. "oneDNN 2.6.3 e7".
  static std::string name();

 private:
  struct Kernels;
  std::unique_ptr<Kernels> kernels_;
};

}  // namespace trireme::ops::cpu
