#pragma once
#include "model/device/device.h"
#include "model/tensor/dtype.h"

namespace trireme {

// FLOP/s that a large square matrix product reaches on the device, or on this process's
// threads: the best of a few, about a quarter of a second of work. What MFU is measured
// against, as nobody publishes a CPU's peak and no GPU reaches its own.
double measured_matrix_peak(DType compute, Device device);

}  // namespace trireme
