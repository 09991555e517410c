#include "model/ops/momentum.h"

#include "model/ops/check.h"
#include "model/ops/cpu/momentum.h"
#include "model/ops/cuda/momentum.h"
#include "model/ops/dispatch.h"

namespace trireme::ops {
namespace {

void check_momentum(const MomentumState& state) {
  const std::int64_t count = state.value.count();
  const DType sums = accumulator_of(state.value.dtype);
  require_count("momentum: momentum", state.momentum, count, sums);
  require_count("momentum: grad", state.grad, count, sums);
  require_count("momentum: grad_scale", state.grad_scale, 1, sums);
  if (state.rate) require_count("momentum: rate", state.rate, 1, sums);
  if (state.master) {
    require_count("momentum: master", state.master, count, sums);
  } else {
    require(state.value.dtype == sums, "momentum: ", name_of(state.value.dtype),
            " weights need a master copy");
  }
}

}  // namespace

void sgd_step(Stream& stream, const MomentumState& state, const Momentum& how) {
  check_momentum(state);
  TRIREME_DISPATCH(stream, sgd_step(stream, state, how));
}

void lion(Stream& stream, const MomentumState& state, const Lion& how) {
  check_momentum(state);
  TRIREME_DISPATCH(stream, lion(stream, state, how));
}

}  // namespace trireme::ops
