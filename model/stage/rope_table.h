#pragma once
#include "model/stage/model_config.h"
#include "model/tensor/tensor.h"

namespace trireme {

// Fills table [positions, head_dim] (host, float32 or float64): every row has head_dim / 2 cosines,
// then as many sines, of position times frequency, with the frequencies scaled by `rope_scaling`.
// Computed in float64.
void fill_rope_table(Tensor table, const ModelConfig& config);

}  // namespace trireme
