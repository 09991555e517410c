#pragma once
#include "model/device/stream.h"
#include "model/tensor/tensor.h"

// Cross-entropy over a vocabulary that may be sharded: every rank has columns [first, first +
// width) of the logits. Between the ops the caller all-reduces `top` by maximum, `total` and
// `target` by sum; a single rank skips this. Statistics are [rows] in the accumulator dtype.
// Targets of -1 are ignored: loss and gradient are zero.
namespace trireme::ops {

// What the loss is computed from, for logits x of a projection: l = soft_cap tanh(scale x /
// soft_cap), or scale x without a cap (Gemma 2; Granite divides logits). The z-loss adds z_loss
// log(sum exp l)^2 (PaLM, Chowdhery et al. 2022).
struct LogitForm {
  double scale = 1;
  double soft_cap = 0;  // 0: none
  double z_loss = 0;
};

// l of x, in place; reads and writes nothing if they are the same.
void transform_logits(Stream&, Tensor logits, const LogitForm&);

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

// loss [rows] = log(total) - target, and the z-loss.
void cross_entropy(Stream&, Tensor loss, Tensor top, Tensor total, Tensor target, Tensor targets,
                   const LogitForm& form = {});

// logits = the gradient with respect to x of scale * the summed loss; without a cap and a z-loss
// scale * form.scale * (softmax - one-hot). On entry l. `scale` [1] float64; empty: 1. It is read
// from device memory, so that a captured step can be replayed with other values.
void cross_entropy_backward(Stream&, Tensor logits, Tensor top, Tensor total, Tensor targets,
                            std::int64_t first, Tensor scale, const LogitForm& form = {});

}  // namespace trireme::ops
