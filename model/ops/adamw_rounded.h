#pragma once
#include "model/ops/optimizer.h"
#include "model/ops/strided_copy.h"

namespace trireme::ops {

// Keys of stochastic rounding; see StochasticRounding.
struct AdamWRounding {
  std::uint64_t m_key = 0, v_key = 0, value_key = 0;
  bool rounds_value = false;  // bfloat16 values; otherwise they are rounded to nearest
  std::uint64_t update = 0;
  Strided where;
};
// AdamW with moments m and v in bfloat16, widened and rounded stochastically in the same pass;
// masters are float32. The bits are those of cast, adamw and round_stochastically one after
// another. If grad_scale is NaN nothing changes.
void adamw_rounded(Stream&, const UpdateTensors& tensors, Tensor grad_scale, const AdamW& how,
                   const AdamWRounding& rounding);

}  // namespace trireme::ops
