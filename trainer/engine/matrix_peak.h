#pragma once
#include <filesystem>

#include "model/device/stream.h"
#include "model/tensor/tensor.h"

namespace trireme {

// Fills an operand with normal numbers: a GPU multiplies zeros with less power than a run's values,
// and so faster.
void fill_normal(Stream& stream, const Tensor& tensor);

// FLOP/s that a large square matmul reaches on the device, or on this process's threads: the best
// of a few runs, about a quarter of a second in all. MFU is relative to this peak, because CPU
// peaks are not published and GPUs do not reach theirs.
double measured_matrix_peak(DType compute, Device device);

// The highest peak measured on this kind of device with this number of threads: see peak_cache.h.
double best_matrix_peak(DType compute, Device device, int threads,
                        const std::filesystem::path& folder);

}  // namespace trireme
