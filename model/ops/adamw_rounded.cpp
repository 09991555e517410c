#include "model/ops/adamw_rounded.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void adamw_rounded(Stream&, const UpdateTensors& tensors, Tensor grad_scale,
                                      const AdamW& how, const AdamWRounding& rounding));

void adamw_rounded(Stream& stream, const UpdateTensors& tensors, Tensor grad_scale,
                   const AdamW& how, const AdamWRounding& rounding) {
  require(how.step >= 1, "adamw_rounded: steps count from 1, not ", how.step);
  require_update("adamw_rounded", tensors, grad_scale, {});
  require(tensors.master.dtype == DType::kF32, "adamw_rounded: the master is ",
          name_of(tensors.master.dtype));
  require(!rounding.rounds_value || tensors.value.dtype == DType::kBf16,
          "adamw_rounded: values to round are ", name_of(tensors.value.dtype));
  require_count("adamw_rounded: m", tensors.state[0], tensors.count(), DType::kBf16);
  require_count("adamw_rounded: v", tensors.state[1], tensors.count(), DType::kBf16);
  record_update(stream, tensors);
  TRIREME_DISPATCH(stream, adamw_rounded(stream, tensors, grad_scale, how, rounding));
}

}  // namespace trireme::ops
