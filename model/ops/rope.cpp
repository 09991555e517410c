#include "model/ops/rope.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void rope(Stream&, Tensor qkv, Tensor positions, Tensor table, const Rope& op));

void rope(Stream& stream, Tensor qkv, Tensor positions, Tensor table, const Rope& given) {
  Rope op = given;
  const Heads& heads = op.heads;
  if (op.rotated == 0) op.rotated = heads.width;
  require(op.rotated % 2 == 0 && op.rotated <= heads.width, "rope: ", op.rotated,
          " rotated elements, not an even number of at most ", heads.width, " of a head");
  require_count("rope: qkv", qkv, positions.count() * heads.qkv(), qkv.dtype);
  require_count("rope: positions", positions, positions.count(), DType::kI32);
  require_like("rope: table", table, {table.rows(), op.rotated}, accumulator_of(qkv.dtype));
  const Tensor rotated = qkv.slice(0, qkv.rows() * (heads.heads + heads.kv_heads) * op.rotated);
  record_memory(stream, "rope", {rotated, rotated});
  TRIREME_DISPATCH(stream, rope(stream, qkv, positions, table, op));
}

}  // namespace trireme::ops
