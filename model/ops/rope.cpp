#include "model/ops/rope.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void rope(Stream&, Tensor qkv, Tensor positions, Tensor table,
                             const Heads& heads, bool backward));

void rope(Stream& stream, Tensor qkv, Tensor positions, Tensor table, const Heads& heads,
          bool backward) {
  require(heads.width % 2 == 0, "rope: heads of odd width ", heads.width);
  require_count("rope: qkv", qkv, positions.count() * heads.qkv(), qkv.dtype);
  require_count("rope: positions", positions, positions.count(), DType::kI32);
  require_like("rope: table", table, {table.rows(), heads.width}, accumulator_of(qkv.dtype));
  // Queries and keys.
  const Tensor rotated = qkv.slice(0, qkv.rows() * (heads.heads + heads.kv_heads) * heads.width);
  record_memory(stream, "rope", {rotated, rotated});
  TRIREME_DISPATCH(stream, rope(stream, qkv, positions, table, heads, backward));
}

}  // namespace trireme::ops
