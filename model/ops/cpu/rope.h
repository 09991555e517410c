#pragma once
#include "model/ops/rope.h"

namespace trireme::ops::cpu {

void rope(Stream&, Tensor qkv, Tensor positions, Tensor table, const Heads& heads, bool backward);

}  // namespace trireme::ops::cpu
