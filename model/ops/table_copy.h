#pragma once
#include <cstdint>

#include "model/device/stream.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

// Adjacent columns of the rows of a table.
struct Columns {
  Tensor table;
  std::int64_t first = 0;
};

// Columns [first, first + width) of `to` = those of `from`, two tables with as many rows.
void copy_columns(Stream&, const Columns& to, const Columns& from, std::int64_t width);

// to [rows, width]: row i = row places[i] of from [..., width]. places [rows] I32. Of any dtype.
void take_rows(Stream&, Tensor to, Tensor from, Tensor places);

}  // namespace trireme::ops
