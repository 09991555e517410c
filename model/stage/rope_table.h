#pragma once
#include "model/stage/layer_config.h"
#include "model/tensor/tensor.h"

namespace trireme {

// Fills table [positions, rotary_dim] (host, float32 or float64): every row has rotary_dim / 2
// cosines, then as many sines, of position times frequency, with the frequencies scaled for
// sequences of `positions` tokens and the values by the scaling's attention factor. Computed in
// float64.
void fill_rope_table(Tensor table, const ModelConfig& config, const RopeConfig& rope);

}  // namespace trireme
