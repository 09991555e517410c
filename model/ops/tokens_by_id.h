#pragma once
#include "model/tensor/tensor.h"

namespace trireme::ops {

// Workspace of embedding_backward: tokens sorted by table row, in token order within a row.
struct TokensById {
  Tensor order = {};   // [tokens] I32
  Tensor starts = {};  // CPU: [table rows + 1] I32; row r has order[starts[r] .. starts[r + 1])
  // GPU: ranges of `order` are given to rows in any order.
  Tensor counts = {};     // [table rows + 3] I32: tokens of a row; then totals
  Tensor ranges = {};     // [table rows, 2] I32: start in `order`, place in `used_rows`
  Tensor used_rows = {};  // [min(tokens, table rows), 4] I32: rows that have tokens
  Tensor arrival = {};    // [2, tokens] I32: numbers of a row's tokens, tokens by these
};

}  // namespace trireme::ops
