#pragma once
#include <vector>

#include "model/device/stream.h"
#include "model/tensor/tensor.h"

namespace trireme {

// A copy of a float32 or float64 tensor's values, once all that is queued is done.
std::vector<double> read_values(Stream& stream, const Tensor& tensor);

}  // namespace trireme
