#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/gemm.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void bias_backward(Stream&, Tensor dbias, Tensor dy, Accumulate accumulate));

void bias_backward(Stream& stream, Tensor dbias, Tensor dy, Accumulate accumulate) {
  require_count("bias_backward: dbias", dbias, dy.width(), accumulator_of(dy.dtype));
  record_memory(stream, "bias_backward", {dy});
  TRIREME_DISPATCH(stream, bias_backward(stream, dbias, dy, accumulate));
}

}  // namespace trireme::ops
