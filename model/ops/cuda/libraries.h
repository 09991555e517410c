#pragma once
#include <vector>

#include "model/ops/libraries.h"

namespace trireme::ops::cuda {

// Versions of cuBLASLt and cuDNN, and the attention kernels of the build.
std::vector<LibraryVersion> libraries();

}  // namespace trireme::ops::cuda
