#pragma once
#include <vector>

#include "model/ops/libraries.h"

namespace trireme::ops::cuda {

// cuBLASLt and cuDNN.
std::vector<LibraryVersion> libraries();

}  // namespace trireme::ops::cuda
