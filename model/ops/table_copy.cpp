#include "model/ops/table_copy.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/expert_rows.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void copy_columns(Stream&, const Columns& to, const Columns& from,
                                     std::int64_t width));

void copy_columns(Stream& stream, const Columns& to, const Columns& from, std::int64_t width) {
  const Tensor &there = to.table, &here = from.table;
  require(there.dtype == here.dtype && there.rows() == here.rows() && width >= 0 && to.first >= 0 &&
              from.first >= 0 && to.first + width <= there.width() &&
              from.first + width <= here.width(),
          "copy_columns: ", width, " columns from ", from.first, " of ", name_of(here.dtype), " ",
          here.shape, " to ", to.first, " of ", name_of(there.dtype), " ", there.shape);
  const Tensor moved = there.slice(0, there.rows() * width);
  record_memory(stream, "copy", {moved, moved});
  TRIREME_DISPATCH(stream, copy_columns(stream, to, from, width));
}

void take_rows(Stream& stream, Tensor to, Tensor from, Tensor places) {
  const auto as_bits = [](Tensor table) {
    if (table.dtype == DType::kI32) table.dtype = DType::kF32;
    return table;
  };
  // Each token has one choice.
  const Tensor of_token{nullptr, DType::kI32, {from.count() / to.width(), 1}, to.device};
  gather_tokens(stream, as_bits(to), as_bits(from).reshaped({of_token.rows(), to.width()}),
                {.pairs = places, .row_of = of_token});
}

}  // namespace trireme::ops
