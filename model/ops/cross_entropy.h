#pragma once
#include "model/device/stream.h"
#include "model/tensor/tensor.h"

// Cross-entropy over a vocabulary that may be sharded: every rank has columns [first, first +
// width) of the logits. Between the ops the caller all-reduces `top` by maximum, `total` and
// `target` by sum; a single rank skips this. Statistics are [rows] in the accumulator dtype.
// Targets of -1 are ignored: loss and gradient are zero.
namespace trireme::ops {

// Sets the logits from column `columns` on, which are vocabulary padding, to -infinity, so that
// they contribute nothing.
void mask_padding(Stream&, Tensor logits, std::int64_t columns);

// top = the largest logit of every row.
void row_max(Stream&, Tensor top, Tensor logits);

// total = sum(exp(logits - top)); target = logits[target] - top if this rank has the target's
// column, otherwise zero. Does not change the logits.
void row_exp_sum(Stream&, Tensor total, Tensor target, Tensor logits, Tensor top, Tensor targets,
                 std::int64_t first);

// row_max and row_exp_sum of a vocabulary that is not sharded; on a GPU in one pass.
void row_max_exp_sum(Stream&, Tensor top, Tensor total, Tensor target, Tensor logits,
                     Tensor targets);

// loss [rows] = log(total) - target.
void cross_entropy(Stream&, Tensor loss, Tensor total, Tensor target, Tensor targets);

// logits = scale * (softmax - one-hot), the gradient of scale * the summed loss. `scale` [1]
// float64; empty: 1. It is read from device memory, so that a captured step can be replayed with
// other values.
void cross_entropy_backward(Stream&, Tensor logits, Tensor top, Tensor total, Tensor targets,
                            std::int64_t first, Tensor scale);

}  // namespace trireme::ops
