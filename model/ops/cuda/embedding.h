#pragma once
#include "model/ops/embedding.h"
#include "model/ops/tokens_by_id.h"

namespace trireme::ops::cuda {

void embedding(Stream&, Tensor y, Tensor table, Tensor ids, std::int64_t first,
               Accumulate accumulate);

// Without atomics: each warp sorts the tokens of a few rows by a scan over all ids, and a block
// then sums each row's tokens in order.
void embedding_backward(Stream&, const TokensById& room, Tensor dtable, Tensor dy, Tensor ids,
                        std::int64_t first, Accumulate accumulate);

}  // namespace trireme::ops::cuda
