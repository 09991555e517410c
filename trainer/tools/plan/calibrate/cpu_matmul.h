#pragma once
#include <cstdint>

#include "model/device/memory.h"
#include "model/device/stream.h"
#include "model/ops/gemm.h"

namespace trireme {

// A product of square matrices [side, side] in float32.
class CpuMatmul {
 public:
  explicit CpuMatmul(std::int64_t side) : side_(side) {}

  void operator()(Stream& stream) const {
    const Tensor all{memory_.data(), DType::kF32, {3 * side_, side_}, Device{}};
    ops::gemm(stream, all.row_slice(0, side_), all.row_slice(side_, side_),
              all.row_slice(2 * side_, side_), {});
  }

 private:
  std::int64_t side_;
  Memory memory_{3 * static_cast<std::size_t>(side_ * side_) * sizeof(float), Device{}};
};

}  // namespace trireme
