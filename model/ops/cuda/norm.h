#pragma once
#include "model/ops/norm.h"

namespace trireme::ops::cuda {

void norm(Stream&, const Norm& op);
void norm_recompute(Stream&, const Norm& op);
// partial_gain and partial_bias [row_chunks(rows), width] are workspace for each chunk's gradients.
void norm_backward(Stream&, Tensor partial_gain, Tensor partial_bias, const NormBackward& op);

}  // namespace trireme::ops::cuda
