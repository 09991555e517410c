#pragma once
#include "model/ops/rope.h"

namespace trireme::ops::cuda {

void rope(Stream&, Tensor qkv, Tensor positions, Tensor table, const Heads& heads, bool backward);

}  // namespace trireme::ops::cuda
