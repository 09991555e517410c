#pragma once
#include <cstddef>
#include <initializer_list>

#include "model/device/stream.h"
#include "model/ops/accumulate.h"
#include "model/tensor/update_tensors.h"

// What ops record on a planning stream. No-ops on an executing stream.
namespace trireme::ops {

// A memory-bound op that passes once over each tensor; empty ones are skipped. One that it reads
// and writes is listed twice. `name`: see PlannedOp.
inline void record_memory(const Stream& stream, const char* name,
                          std::initializer_list<Tensor> passes) {
  if (stream.executes()) return;
  double bytes = 0;
  for (const Tensor& tensor : passes) bytes += tensor ? static_cast<double>(tensor.bytes()) : 0;
  stream.record({.name = name, .element = size_of(passes.begin()->dtype), .bytes = bytes});
}

// An optimizer's update in one pass.
inline void record_update(const Stream& stream, const UpdateTensors& t) {
  record_memory(stream, "update",
                {t.value, t.separate_master(), t.master, t.grad, t.state[0], t.state[0], t.state[1],
                 t.state[1]});
}

// c [m, n] = or += a product over `depth` of operands with elements of `element` bytes. `adds`:
// it reads c, or as many elements of another tensor.
inline void record_matmul(const Stream& stream, const Tensor& c, std::int64_t depth,
                          std::size_t element, bool adds, bool transpose_a) {
  if (stream.executes()) return;
  const auto rows = static_cast<double>(c.rows()), columns = static_cast<double>(c.width()),
             inner = static_cast<double>(depth);
  stream.record({.kind = PlannedOp::Kind::kMatmul,
                 .name = "matmul",
                 .element = element,
                 .rows = rows,
                 .columns = columns,
                 .depth = inner,
                 .transpose_a = transpose_a,
                 .adds = adds,
                 .flops = 2.0 * rows * columns * inner,
                 .bytes = (rows + columns) * inner * static_cast<double>(element),
                 .result_bytes = static_cast<double>(c.bytes()) * (adds ? 2 : 1)});
}

}  // namespace trireme::ops
