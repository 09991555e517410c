#pragma once
#include <cstdint>

#include "model/device/memory.h"
#include "model/device/stream.h"
#include "model/ops/gemm.h"

namespace trireme {

// A product of square matrices [side, side].
class CpuMatmul {
 public:
  explicit CpuMatmul(std::int64_t side, DType dtype = DType::kF32) : side_(side), dtype_(dtype) {}

  void operator()(Stream& stream) const {
    const Tensor all{memory_.data(), dtype_, {3 * side_, side_}, Device{}};
    ops::gemm(stream, all.row_slice(0, side_), all.row_slice(side_, side_),
              all.row_slice(2 * side_, side_), {});
  }

 private:
  std::int64_t side_;
  DType dtype_;
  Memory memory_{3 * static_cast<std::size_t>(side_ * side_) * size_of(dtype_), Device{}};
};

}  // namespace trireme
