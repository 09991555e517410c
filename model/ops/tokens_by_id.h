#pragma once
#include "model/tensor/tensor.h"

namespace trireme::ops {

// Workspace of embedding_backward: tokens sorted by the table's row they name, in
// token order inside a row. Row r's are order[starts[r] .. starts[r + 1]).
struct TokensById {
  Tensor starts;  // [table rows + 1] I32
  Tensor order;   // [tokens] I32
};

}  // namespace trireme::ops
