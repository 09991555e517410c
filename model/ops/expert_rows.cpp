#include "model/ops/expert_rows.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void order_by_expert(Stream&, const ExpertRows& rows, Tensor experts));
TRIREME_ON_DEVICES(void gather_tokens(Stream&, Tensor y, Tensor x, const ExpertRows& rows));
TRIREME_ON_DEVICES(void combine_rows(Stream&, Tensor y, Tensor x, Tensor weights,
                                     const ExpertRows& rows));
TRIREME_ON_DEVICES(void weigh_rows_backward(Stream&, Tensor dweights, Tensor act, Tensor dact,
                                            Tensor weights, const ExpertRows& rows));

void order_by_expert(Stream& stream, const ExpertRows& rows, Tensor experts) {
  require_count("order_by_expert: experts", experts, experts.count(), DType::kI32);
  require_count("order_by_expert: pairs", rows.pairs, experts.count(), DType::kI32);
  require_count("order_by_expert: row_of", rows.row_of, experts.count(), DType::kI32);
  require(rows.starts.dtype == DType::kI32 && rows.starts.count() > 1,
          "order_by_expert: starts is ", name_of(rows.starts.dtype), " ", rows.starts.shape);
  require(experts.count() <= 0x7fffffff, "order_by_expert: ", experts.count(), " rows");
  record_memory(stream, "order_by_expert", {experts, experts, rows.row_of, rows.pairs});
  TRIREME_DISPATCH(stream, order_by_expert(stream, rows, experts));
}

void gather_tokens(Stream& stream, Tensor y, Tensor x, const ExpertRows& rows) {
  const std::int64_t width = x.width();
  require_count("gather_tokens: y", y, rows.pairs.count() * width, x.dtype);
  require_count("gather_tokens: x", x, rows.row_of.rows() * width, x.dtype);
  record_memory(stream, "gather_tokens", {y, x});
  TRIREME_DISPATCH(stream, gather_tokens(stream, y, x, rows));
}

void combine_rows(Stream& stream, Tensor y, Tensor x, Tensor weights, const ExpertRows& rows) {
  const std::int64_t width = y.width();
  require_count("combine_rows: y", y, rows.row_of.rows() * width, y.dtype);
  require_count("combine_rows: x", x, rows.pairs.count() * width, y.dtype);
  if (weights) {
    require_count("combine_rows: weights", weights, rows.pairs.count(), accumulator_of(y.dtype));
  }
  record_memory(stream, "combine_rows", {y, x});
  TRIREME_DISPATCH(stream, combine_rows(stream, y, x, weights, rows));
}

void weigh_rows_backward(Stream& stream, Tensor dweights, Tensor act, Tensor dact, Tensor weights,
                         const ExpertRows& rows) {
  const std::int64_t pairs = rows.pairs ? rows.pairs.count() : act.rows();
  const DType sums = accumulator_of(act.dtype);
  require_count("weigh_rows_backward: act", act, pairs * act.width(), act.dtype);
  require_count("weigh_rows_backward: dact", dact, act.count(), act.dtype);
  require_count("weigh_rows_backward: weights", weights, pairs, sums);
  require_count("weigh_rows_backward: dweights", dweights, pairs, sums);
  record_memory(stream, "weigh_rows_backward", {act, act, dact, dact});
  TRIREME_DISPATCH(stream, weigh_rows_backward(stream, dweights, act, dact, weights, rows));
}

}  // namespace trireme::ops
