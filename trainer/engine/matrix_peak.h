#pragma once
#include "model/tensor/dtype.h"

namespace trireme {

// FLOP/s that a large square matrix product reaches on this process's threads: the
// best of a few, about a quarter of a second of work. What MFU is measured against on
// a CPU, whose peak nobody publishes.
double measured_matrix_peak(DType compute);

}  // namespace trireme
