#pragma once
#include "model/ops/head_norm.h"

namespace trireme::ops::cpu {

void head_norm(Stream&, const HeadNorm& op);

// `partial` [row_chunks(tokens), 2 width] is workspace for each chunk's gradients of the query
// gain, then of the key gain.
void head_norm_backward(Stream&, Tensor partial, const HeadNormBackward& op);

}  // namespace trireme::ops::cpu
