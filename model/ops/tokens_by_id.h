#pragma once
#include "model/tensor/tensor.h"

namespace trireme::ops {

// Workspace of embedding_backward: tokens sorted by table row, in token order within a row. The
// tokens of row r are order[starts[r] .. starts[r + 1]).
struct TokensById {
  Tensor starts;  // [table rows + 1] I32
  Tensor order;   // [tokens] I32
};

}  // namespace trireme::ops
