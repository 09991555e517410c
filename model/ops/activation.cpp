#include "model/ops/activation.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void gelu(Stream&, Tensor y, Tensor x));
TRIREME_ON_DEVICES(void gelu_backward(Stream&, Tensor dx, Tensor dy, Tensor x));
TRIREME_ON_DEVICES(void swiglu(Stream&, Tensor y, Tensor x));
TRIREME_ON_DEVICES(void swiglu_backward(Stream&, Tensor dx, Tensor dy, Tensor x));

void gelu(Stream& stream, Tensor y, Tensor x) {
  require_count("gelu: y", y, x.count(), x.dtype);
  record_memory(stream, "gelu", {y, x});
  TRIREME_DISPATCH(stream, gelu(stream, y, x));
}

void gelu_backward(Stream& stream, Tensor dx, Tensor dy, Tensor x) {
  require_count("gelu_backward: dx", dx, x.count(), x.dtype);
  require_count("gelu_backward: dy", dy, x.count(), x.dtype);
  record_memory(stream, "gelu_backward", {dx, dy, x});
  TRIREME_DISPATCH(stream, gelu_backward(stream, dx, dy, x));
}

void swiglu(Stream& stream, Tensor y, Tensor x) {
  require(x.width() == 2 * y.width(), "swiglu: x is ", x.width(), " wide, y ", y.width());
  require_count("swiglu: x", x, 2 * y.count(), y.dtype);
  if (y.count() == 0) return;
  record_memory(stream, "swiglu", {y, x});
  TRIREME_DISPATCH(stream, swiglu(stream, y, x));
}

void swiglu_backward(Stream& stream, Tensor dx, Tensor dy, Tensor x) {
  require(x.width() == 2 * dy.width(), "swiglu_backward: x is ", x.width(), " wide, dy ",
          dy.width());
  require_count("swiglu_backward: x", x, 2 * dy.count(), dy.dtype);
  require_count("swiglu_backward: dx", dx, x.count(), dy.dtype);
  if (dy.count() == 0) return;
  record_memory(stream, "swiglu_backward", {dx, dy, x});
  TRIREME_DISPATCH(stream, swiglu_backward(stream, dx, dy, x));
}

}  // namespace trireme::ops
