#include "model/ops/direction.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void adam_direction(Stream&, const UpdateTensors& tensors, Tensor grad_scale,
                                       const AdamDirection& how));
TRIREME_ON_DEVICES(void momentum_direction(Stream&, const UpdateTensors& tensors, Tensor grad_scale,
                                           double beta, bool nesterov));
TRIREME_ON_DEVICES(void apply_direction(Stream&, const UpdateTensors& tensors, Tensor grad_scale,
                                        const DirectionStep& how));
TRIREME_ON_DEVICES(void axpby(Stream&, Tensor y, Tensor x, const Axpby& how));

void adam_direction(Stream& stream, const UpdateTensors& tensors, Tensor grad_scale,
                    const AdamDirection& how) {
  require(how.step >= 1, "adam_direction: steps count from 1, not ", how.step);
  require_update("adam_direction", tensors, grad_scale, {"m", "v"});
  record_memory(stream, "update",
                {tensors.grad, tensors.grad, tensors.master, tensors.state[0], tensors.state[0],
                 tensors.state[1], tensors.state[1]});
  TRIREME_DISPATCH(stream, adam_direction(stream, tensors, grad_scale, how));
}

void momentum_direction(Stream& stream, const UpdateTensors& tensors, Tensor grad_scale,
                        double beta, bool nesterov) {
  require_update("momentum_direction", tensors, grad_scale, {"momentum"});
  record_memory(stream, "update", {tensors.grad, tensors.grad, tensors.state[0], tensors.state[0]});
  TRIREME_DISPATCH(stream, momentum_direction(stream, tensors, grad_scale, beta, nesterov));
}

void apply_direction(Stream& stream, const UpdateTensors& tensors, Tensor grad_scale,
                     const DirectionStep& how) {
  require_update("apply_direction", tensors, grad_scale, {});
  if (how.ratio) require_count("apply_direction: ratio", how.ratio, 1, tensors.master.dtype);
  record_memory(stream, "update",
                {tensors.value, tensors.separate_master(), tensors.master, tensors.grad});
  TRIREME_DISPATCH(stream, apply_direction(stream, tensors, grad_scale, how));
}

void axpby(Stream& stream, Tensor y, Tensor x, const Axpby& how) {
  require(y.dtype == accumulator_of(y.dtype), "axpby: y is ", name_of(y.dtype));
  require_count("axpby: x", x, y.count(), y.dtype);
  if (how.factor) require_count("axpby: factor", how.factor, 1, y.dtype);
  record_memory(stream, "update", {y, y, x});
  TRIREME_DISPATCH(stream, axpby(stream, y, x, how));
}

}  // namespace trireme::ops
