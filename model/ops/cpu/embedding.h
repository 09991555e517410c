#pragma once
#include "model/ops/embedding.h"
#include "model/ops/tokens_by_id.h"

namespace trireme::ops::cpu {

void embedding(Stream&, Tensor y, Tensor table, Tensor ids, std::int64_t first,
               Accumulate accumulate);

void embedding_backward(Stream&, const TokensById& room, Tensor dtable, Tensor dy, Tensor ids,
                        std::int64_t first, Accumulate accumulate);

}  // namespace trireme::ops::cpu
