#pragma once
#include "model/ops/cross_entropy.h"

namespace trireme::ops::cuda {

// One block per row, which reads it once in each op: probabilities are written only as the
// gradient, in place of the logits.
void mask_padding(Stream&, Tensor logits, std::int64_t columns);
void row_max(Stream&, Tensor top, Tensor logits);
void row_exp_sum(Stream&, Tensor total, Tensor target, Tensor logits, Tensor top, Tensor targets,
                 std::int64_t first);
void cross_entropy(Stream&, Tensor loss, Tensor total, Tensor target, Tensor targets);
void cross_entropy_backward(Stream&, Tensor logits, Tensor top, Tensor total, Tensor targets,
                            std::int64_t first, Tensor scale);

}  // namespace trireme::ops::cuda
