#pragma once
#include "model/ops/embedding.h"
#include "model/ops/tokens_by_id.h"

namespace trireme::ops::cuda {

void embedding(Stream&, Tensor y, Tensor table, Tensor ids, std::int64_t first, Into into);

// Without atomics: a warp sorts the tokens of some rows by walking over all ids, and a
// block then adds up each row's tokens in their order.
void embedding_backward(Stream&, const TokensById& room, Tensor dtable, Tensor dy, Tensor ids,
                        std::int64_t first, Into into);

}  // namespace trireme::ops::cuda
