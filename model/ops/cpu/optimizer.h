#pragma once
#include "model/ops/optimizer.h"

namespace trireme::ops::cpu {

void add_chunk_squares(Stream&, Tensor partials, Tensor x, std::int64_t into);
void clip_scale(Stream&, Tensor norm, Tensor scale, Tensor partials, const Clip& how);
void adamw(Stream&, const UpdateTensors& tensors, Tensor grad_scale, const AdamW& how);

}  // namespace trireme::ops::cpu
