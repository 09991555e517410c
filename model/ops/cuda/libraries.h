#pragma once
#include <vector>

#include "model/ops/libraries.h"

namespace trireme::ops::cuda {

// cuBLASLt, cuDNN, and whose attention the build has.
std::vector<LibraryVersion> libraries();

}  // namespace trireme::ops::cuda
