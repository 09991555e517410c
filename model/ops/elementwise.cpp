#include "model/ops/elementwise.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void add(Stream&, Tensor y, Tensor a, Tensor b));
TRIREME_ON_DEVICES(void scale(Stream&, Tensor y, Tensor x, double factor));
TRIREME_ON_DEVICES(void copy(Stream&, Tensor to, Tensor from));
TRIREME_ON_DEVICES(void zero(Stream&, Tensor y));
TRIREME_ON_DEVICES(void cast(Stream&, Tensor to, Tensor from));
TRIREME_ON_DEVICES(void sum(Stream&, Tensor total, Tensor x));

void add(Stream& stream, Tensor y, Tensor a, Tensor b) {
  require_count("add: a", a, y.count(), y.dtype);
  require_count("add: b", b, y.count(), y.dtype);
  record_memory(stream, "add", {y, a, b});
  TRIREME_DISPATCH(stream, add(stream, y, a, b));
}

void scale(Stream& stream, Tensor y, Tensor x, double factor) {
  require_count("scale: x", x, y.count(), y.dtype);
  record_memory(stream, "scale", {y, x});
  TRIREME_DISPATCH(stream, scale(stream, y, x, factor));
}

void copy(Stream& stream, Tensor to, Tensor from) {
  require_count("copy: from", from, to.count(), to.dtype);
  record_memory(stream, "copy", {to, from});
  TRIREME_DISPATCH(stream, copy(stream, to, from));
}

void zero(Stream& stream, Tensor y) {
  record_memory(stream, "zero", {y});
  TRIREME_DISPATCH(stream, zero(stream, y));
}

void cast(Stream& stream, Tensor to, Tensor from) {
  require_count("cast: from", from, to.count(), from.dtype);
  record_memory(stream, "cast", {to, from});
  TRIREME_DISPATCH(stream, cast(stream, to, from));
}

void sum(Stream& stream, Tensor total, Tensor x) {
  require_count("sum: total", total, 1, DType::kF64);
  record_memory(stream, "sum", {x});
  TRIREME_DISPATCH(stream, sum(stream, total, x));
}

}  // namespace trireme::ops
