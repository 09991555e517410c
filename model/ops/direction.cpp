#include "model/ops/direction.h"

#include "model/ops/check.h"
#include "model/ops/cpu/direction.h"
#include "model/ops/cuda/direction.h"
#include "model/ops/dispatch.h"

namespace trireme::ops {
namespace {

void require_accumulator(const char* what, const Tensor& tensor) {
  require(tensor.dtype == accumulator_of(tensor.dtype), what, " is ", name_of(tensor.dtype));
}

}  // namespace

void adam_direction(Stream& stream, const AdamDirectionState& state, const AdamDirection& how) {
  require_accumulator("adam_direction: grad", state.grad);
  const std::int64_t count = state.grad.count();
  const DType type = state.grad.dtype;
  require(how.step >= 1, "adam_direction: steps count from 1, not ", how.step);
  require_count("adam_direction: weight", state.weight, count, type);
  require_count("adam_direction: m", state.m, count, type);
  require_count("adam_direction: v", state.v, count, type);
  require_count("adam_direction: grad_scale", state.grad_scale, 1, type);
  TRIREME_DISPATCH(stream, adam_direction(stream, state, how));
}

void momentum_direction(Stream& stream, Tensor momentum, Tensor grad, Tensor grad_scale,
                        double beta, bool nesterov) {
  require_accumulator("momentum_direction: grad", grad);
  require_count("momentum_direction: momentum", momentum, grad.count(), grad.dtype);
  require_count("momentum_direction: grad_scale", grad_scale, 1, grad.dtype);
  TRIREME_DISPATCH(stream, momentum_direction(stream, momentum, grad, grad_scale, beta, nesterov));
}

void apply_direction(Stream& stream, const DirectionState& state, double rate, double decay) {
  const std::int64_t count = state.value.count();
  const DType sums = accumulator_of(state.value.dtype);
  require_count("follow: direction", state.direction, count, sums);
  require_count("follow: grad_scale", state.grad_scale, 1, sums);
  if (state.ratio) require_count("follow: ratio", state.ratio, 1, sums);
  if (state.master) {
    require_count("follow: master", state.master, count, sums);
  } else {
    require(state.value.dtype == sums, "follow: ", name_of(state.value.dtype),
            " weights need a master copy");
  }
  TRIREME_DISPATCH(stream, apply_direction(stream, state, rate, decay));
}

void axpby(Stream& stream, Tensor y, Tensor x, const Axpby& how) {
  require_accumulator("blend: y", y);
  require_count("blend: x", x, y.count(), y.dtype);
  if (how.factor) require_count("blend: factor", how.factor, 1, y.dtype);
  TRIREME_DISPATCH(stream, axpby(stream, y, x, how));
}

}  // namespace trireme::ops
