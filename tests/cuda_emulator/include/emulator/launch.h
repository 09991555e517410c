#pragma once
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#include <emulator/api.h>
#include <emulator/vectors.h>

enum cudaLaunchAttributeID { cudaLaunchAttributeIgnore = 0 };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

namespace trireme::emulator {

// Whether a kernel could follow this word, if it is an address, on a device.
bool may_be_followed(std::uint64_t word);
// Queues the kernel: `body` is one thread's work.
cudaError_t enqueue_kernel(const void* kernel, const cudaLaunchConfig_t& config,
                           std::function<void()> body);

// Every word of an argument that looks like an address has to be a device's. Padding holds
// whatever was there before.
template <class Argument>
bool reaches_only_devices(Argument argument) {
  static_assert(std::is_trivially_copyable_v<Argument>, "kernels take their arguments as bytes");
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&argument);
#endif
  for (std::size_t at = 0; at + 8 <= sizeof(Argument); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, reinterpret_cast<const std::byte*>(&argument) + at, 8);
    if (!may_be_followed(word)) return false;
  }
  return true;
}

}  // namespace trireme::emulator

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  const std::tuple<std::decay_t<Parameters>...> values(arguments...);
  const bool fine = std::apply(
      [](const auto&... each) { return (trireme::emulator::reaches_only_devices(each) && ...); },
      values);
  if (!fine) return trireme::emulator::refuse(cudaErrorIllegalAddress);
  return trireme::emulator::enqueue_kernel(reinterpret_cast<const void*>(kernel), *config,
                                           [values, kernel] { std::apply(kernel, values); });
}
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
