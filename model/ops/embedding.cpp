#include "model/ops/embedding.h"

#include <algorithm>

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"
#include "model/ops/tokens_by_id.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void embedding(Stream&, Tensor y, Tensor table, Tensor ids, std::int64_t first,
                                  Accumulate accumulate));
TRIREME_ON_DEVICES(void embedding_backward(Stream&, const TokensById& room, Tensor dtable,
                                           Tensor dy, Tensor ids, std::int64_t first,
                                           Accumulate accumulate));

void embedding(Stream& stream, Tensor y, Tensor table, Tensor ids, std::int64_t first,
               Accumulate accumulate) {
  require_count("embedding: ids", ids, ids.count(), DType::kI32);
  require_count("embedding: y", y, ids.count() * table.width(), table.dtype);
  record_memory(stream, "embedding", {y, y, accumulate == Accumulate::kAdd ? y : Tensor{}});
  TRIREME_DISPATCH(stream, embedding(stream, y, table, ids, first, accumulate));
}

void embedding_backward(Stream& stream, Arena& scratch, Tensor dtable, Tensor dy, Tensor ids,
                        std::int64_t first, Accumulate accumulate) {
  require_count("embedding_backward: ids", ids, ids.count(), DType::kI32);
  require_count("embedding_backward: dy", dy, ids.count() * dtable.width(), dy.dtype);
  require_count("embedding_backward: dtable", dtable, dtable.count(), accumulator_of(dy.dtype));
  const Arena::Frame frame(scratch);
  const std::int64_t rows = dtable.rows(), tokens = ids.count();
  TokensById room{.order = scratch.take({tokens}, DType::kI32)};
  if (stream.on_cuda()) {
    room.counts = scratch.take({rows + 3}, DType::kI32);
    room.ranges = scratch.take({rows, 2}, DType::kI32);
    room.used_rows = scratch.take({std::min(tokens, rows), 4}, DType::kI32);
    room.arrival = scratch.take({2, tokens}, DType::kI32);
  } else {
    room.starts = scratch.take({rows + 1}, DType::kI32);
  }
  if (accumulate == Accumulate::kReplace) {
    record_memory(stream, "embedding_backward", {dy, dtable});
  } else {  // at most a row for each token
    const Tensor used = dtable.slice(0, std::min(dtable.count(), dy.count()));
    record_memory(stream, "embedding_backward", {dy, used, used});
  }
  TRIREME_DISPATCH(stream, embedding_backward(stream, room, dtable, dy, ids, first, accumulate));
}

}  // namespace trireme::ops
