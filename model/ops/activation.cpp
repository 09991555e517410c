#include "model/ops/activation.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/float8.h"
#include "model/ops/record.h"

// All activation functions are recorded under the name of the one whose efficiency was measured.
namespace trireme::ops {

TRIREME_ON_DEVICES(void activate(Stream&, Tensor y, Tensor x, Activation kind, Tensor magnitudes));
TRIREME_ON_DEVICES(void activate_backward(Stream&, Tensor dx, Tensor dy, Tensor x, Activation kind,
                                          Tensor magnitudes));
TRIREME_ON_DEVICES(void gate(Stream&, Tensor y, Tensor x, Activation kind, double limit,
                             Tensor magnitudes));
TRIREME_ON_DEVICES(void gate_backward(Stream&, Tensor dx, Tensor dy, Tensor x, Activation kind,
                                      double limit, Tensor magnitudes));

namespace {

void check_limit(const char* op, Activation kind, double limit, const Tensor& magnitudes) {
  require(limit == 0 || (limit > 0 && kind == Activation::kSilu && !magnitudes), op,
          ": a limit of ", limit);
}

}  // namespace

void activate(Stream& stream, Tensor y, Tensor x, Activation kind, Tensor magnitudes) {
  require_count("activate: y", y, x.count(), x.dtype);
  if (magnitudes) require_magnitudes("activate: magnitudes", magnitudes, y);
  record_memory(stream, "gelu", {y, x});
  TRIREME_DISPATCH(stream, activate(stream, y, x, kind, magnitudes));
}

void activate_backward(Stream& stream, Tensor dx, Tensor dy, Tensor x, Activation kind,
                       Tensor magnitudes) {
  require_count("activate_backward: dx", dx, x.count(), x.dtype);
  require_count("activate_backward: dy", dy, x.count(), x.dtype);
  if (magnitudes) require_magnitudes("activate_backward: magnitudes", magnitudes, dx);
  record_memory(stream, "gelu_backward", {dx, dy, x});
  TRIREME_DISPATCH(stream, activate_backward(stream, dx, dy, x, kind, magnitudes));
}

void gate(Stream& stream, Tensor y, Tensor x, Activation kind, double limit, Tensor magnitudes) {
  check_limit("gate", kind, limit, magnitudes);
  require(x.width() == 2 * y.width(), "gate: x is ", x.width(), " wide, y ", y.width());
  require_count("gate: x", x, 2 * y.count(), y.dtype);
  if (magnitudes) require_magnitudes("gate: magnitudes", magnitudes, y);
  if (y.count() == 0) return;
  record_memory(stream, "swiglu", {y, x});
  TRIREME_DISPATCH(stream, gate(stream, y, x, kind, limit, magnitudes));
}

void gate_backward(Stream& stream, Tensor dx, Tensor dy, Tensor x, Activation kind, double limit,
                   Tensor magnitudes) {
  check_limit("gate_backward", kind, limit, magnitudes);
  require(x.width() == 2 * dy.width(), "gate_backward: x is ", x.width(), " wide, dy ", dy.width());
  require_count("gate_backward: x", x, 2 * dy.count(), dy.dtype);
  require_count("gate_backward: dx", dx, x.count(), dy.dtype);
  if (magnitudes) require_magnitudes("gate_backward: magnitudes", magnitudes, dx);
  if (dy.count() == 0) return;
  record_memory(stream, "swiglu_backward", {dx, dy, x});
  TRIREME_DISPATCH(stream, gate_backward(stream, dx, dy, x, kind, limit, magnitudes));
}

}  // namespace trireme::ops
