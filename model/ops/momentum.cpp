#include "model/ops/momentum.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void sgd_step(Stream&, const UpdateTensors& tensors, Tensor grad_scale,
                                 const Momentum& how));
TRIREME_ON_DEVICES(void lion(Stream&, const UpdateTensors& tensors, Tensor grad_scale,
                             const Lion& how));

void sgd_step(Stream& stream, const UpdateTensors& tensors, Tensor grad_scale,
              const Momentum& how) {
  require_update("momentum", tensors, grad_scale, {"momentum"});
  if (how.rate) require_count("momentum: rate", how.rate, 1, tensors.master.dtype);
  record_update(stream, tensors);
  TRIREME_DISPATCH(stream, sgd_step(stream, tensors, grad_scale, how));
}

void lion(Stream& stream, const UpdateTensors& tensors, Tensor grad_scale, const Lion& how) {
  require_update("momentum", tensors, grad_scale, {"momentum"});
  record_update(stream, tensors);
  TRIREME_DISPATCH(stream, lion(stream, tensors, grad_scale, how));
}

}  // namespace trireme::ops
