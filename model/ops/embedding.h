#pragma once
#include "model/device/stream.h"
#include "model/ops/accumulate.h"
#include "model/tensor/arena.h"

namespace trireme::ops {

// y [tokens, width] = or += table[ids - first] for ids in [first, first + table rows), else zero.
void embedding(Stream&, Tensor y, Tensor table, Tensor ids, std::int64_t first,
               Accumulate accumulate);

// dtable [rows, width] in the accumulator dtype = or += the sum of dy by row. Tokens with the same
// id are added in token order, so the bits do not depend on threads.
void embedding_backward(Stream&, Arena& scratch, Tensor dtable, Tensor dy, Tensor ids,
                        std::int64_t first, Accumulate accumulate);

}  // namespace trireme::ops
