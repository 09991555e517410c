#pragma once
#include <filesystem>

#include "model/device/device.h"
#include "model/tensor/dtype.h"

namespace trireme {

// FLOP/s that a large square matrix product reaches on the device, or on this process's
// threads: the best of a few, about a quarter of a second of work. What MFU is measured
// against, because no CPU's peak is published and no GPU reaches its own.
double measured_matrix_peak(DType compute, Device device);

// The same, or what was measured before on such a device with so many threads where that is more: a
// busy machine has a lower peak than its own, and MFU would be of another thing in each run. The
// most ever seen is kept in `folder`, the user's cache; where that is empty or cannot be written,
// nothing is.
double best_matrix_peak(DType compute, Device device, int threads,
                        const std::filesystem::path& folder);

}  // namespace trireme
