#pragma once
// Included only by kernel sources. All kernels are started by launch(), so that the tests' emulator
// can start them too.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "model/device/cuda/check.h"

namespace trireme::cuda {

// Converts a block or thread count derived from a shape.
inline unsigned extent(std::int64_t count) {
  require(count >= 0 && count <= 0x7fffffff, "a kernel over ", count, " blocks");
  return static_cast<unsigned>(count);
}

// Number of parts of `size` needed to cover `count`.
constexpr std::int64_t parts(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}

// Enqueues kernel(arguments...) on `stream`, with `shared_bytes` of dynamic shared memory per block
// (see dynamic_shared), up to the device's limit. An empty grid enqueues nothing. Throws
// EnvironmentError if the launch fails.
template <class... Parameters>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            const Stream& stream, std::type_identity_t<Parameters>... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const int device = stream.device().index;
  use_device(device);
  constexpr std::size_t kWithoutAsking = std::size_t{48} << 10;
  if (shared_bytes > kWithoutAsking) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          device, "cudaFuncSetAttribute for ", shared_bytes, " bytes of shared memory");
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = queue_of(stream);
  check(cudaLaunchKernelEx(&config, kernel, arguments...), device, "cudaLaunchKernelEx");
}

}  // namespace trireme::cuda
