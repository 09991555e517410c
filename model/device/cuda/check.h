#pragma once
#include <cuda_runtime.h>

#include "model/base/error.h"
#include "model/device/stream.h"

namespace trireme::cuda {

// Throws EnvironmentError("cuda:0: cudaMalloc of 512 bytes: out of memory
// (cudaErrorMemoryAllocation)") unless `status` is cudaSuccess. `call` are the parts of the
// description of the call.
template <class... Parts>
void check(cudaError_t status, int device, const Parts&... call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears a non-sticky error
  throw EnvironmentError(say("cuda:", device, ": ", call..., ": ", cudaGetErrorString(status), " (",
                             cudaGetErrorName(status), ")"));
}

// The cudaStream_t of an executing stream on a CUDA device.
inline cudaStream_t queue_of(const Stream& stream) {
  return static_cast<cudaStream_t>(stream.handle());
}

// Sets the current device of this thread.
inline void use_device(int device) {
  check(cudaSetDevice(device), device, "cudaSetDevice");
}

}  // namespace trireme::cuda
