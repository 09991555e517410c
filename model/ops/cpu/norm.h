#pragma once
#include "model/ops/norm.h"

namespace trireme::ops::cpu {

void rms_norm(Stream&, const RmsNorm& op);
void layer_norm(Stream&, const LayerNorm& op);
void rms_norm_recompute(Stream&, Tensor y, Tensor x, Tensor gain, Tensor inv_rms);
void layer_norm_recompute(Stream&, Tensor y, Tensor x, Tensor gain, Tensor bias, Tensor mean,
                          Tensor inv_std);

// `partial` [row_chunks(rows), width] is workspace for each chunk's gradients.
void rms_norm_backward(Stream&, Tensor partial_gain, const RmsNormBackward& op);
void layer_norm_backward(Stream&, Tensor partial_gain, Tensor partial_bias,
                         const LayerNormBackward& op);

}  // namespace trireme::ops::cpu
