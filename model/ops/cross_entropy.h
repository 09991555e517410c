#pragma once
#include "model/device/stream.h"
#include "model/tensor/tensor.h"

// Cross-entropy over a vocabulary that may be shared out: every holder has the
// columns [first, first + width) of the logits. The caller combines `top` by
// maximum, `total` and `target` by sum over the holders in between; alone there
// is nothing to combine. Statistics have the accumulator dtype, [rows].
// A target of -1 is ignored: its loss and its gradient are zero.
namespace trireme::ops {

// The logits from column `columns` on, which belong to no word, become -infinity: in
// all that follows they count for nothing.
void mask_padding(Stream&, Tensor logits, std::int64_t columns);

// top = the largest logit of every row.
void row_max(Stream&, Tensor top, Tensor logits);

// total = sum(exp(logits - top)); target = logits[target] - top where the target
// is held here, else zero. The logits stay as they are.
void row_exp_sum(Stream&, Tensor total, Tensor target, Tensor logits, Tensor top, Tensor targets,
                 std::int64_t first);

// loss [rows] = log(total) - target.
void cross_entropy(Stream&, Tensor loss, Tensor total, Tensor target, Tensor targets);

// The logits become scale * (softmax - one-hot), the gradient of scale * the summed loss.
// `scale` [1] float64, or none for 1: a number that changes from step to step is read where it
// lies, so that a recorded step may be done again.
void cross_entropy_backward(Stream&, Tensor logits, Tensor top, Tensor total, Tensor targets,
                            std::int64_t first, Tensor scale);

}  // namespace trireme::ops
