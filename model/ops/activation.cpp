#include "model/ops/activation.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

// All activation functions are recorded under the name of the one whose efficiency was measured.
namespace trireme::ops {

TRIREME_ON_DEVICES(void activate(Stream&, Tensor y, Tensor x, Activation kind));
TRIREME_ON_DEVICES(void activate_backward(Stream&, Tensor dx, Tensor dy, Tensor x,
                                          Activation kind));
TRIREME_ON_DEVICES(void gate(Stream&, Tensor y, Tensor x, Activation kind, double limit));
TRIREME_ON_DEVICES(void gate_backward(Stream&, Tensor dx, Tensor dy, Tensor x, Activation kind,
                                      double limit));

namespace {

void check_limit(const char* op, Activation kind, double limit) {
  require(limit == 0 || (limit > 0 && kind == Activation::kSilu), op, ": a limit of ", limit);
}

}  // namespace

void activate(Stream& stream, Tensor y, Tensor x, Activation kind) {
  require_count("activate: y", y, x.count(), x.dtype);
  record_memory(stream, "gelu", {y, x});
  TRIREME_DISPATCH(stream, activate(stream, y, x, kind));
}

void activate_backward(Stream& stream, Tensor dx, Tensor dy, Tensor x, Activation kind) {
  require_count("activate_backward: dx", dx, x.count(), x.dtype);
  require_count("activate_backward: dy", dy, x.count(), x.dtype);
  record_memory(stream, "gelu_backward", {dx, dy, x});
  TRIREME_DISPATCH(stream, activate_backward(stream, dx, dy, x, kind));
}

void gate(Stream& stream, Tensor y, Tensor x, Activation kind, double limit) {
  check_limit("gate", kind, limit);
  require(x.width() == 2 * y.width(), "gate: x is ", x.width(), " wide, y ", y.width());
  require_count("gate: x", x, 2 * y.count(), y.dtype);
  if (y.count() == 0) return;
  record_memory(stream, "swiglu", {y, x});
  TRIREME_DISPATCH(stream, gate(stream, y, x, kind, limit));
}

void gate_backward(Stream& stream, Tensor dx, Tensor dy, Tensor x, Activation kind, double limit) {
  check_limit("gate_backward", kind, limit);
  require(x.width() == 2 * dy.width(), "gate_backward: x is ", x.width(), " wide, dy ", dy.width());
  require_count("gate_backward: x", x, 2 * dy.count(), dy.dtype);
  require_count("gate_backward: dx", dx, x.count(), dy.dtype);
  if (dy.count() == 0) return;
  record_memory(stream, "swiglu_backward", {dx, dy, x});
  TRIREME_DISPATCH(stream, gate_backward(stream, dx, dy, x, kind, limit));
}

}  // namespace trireme::ops
