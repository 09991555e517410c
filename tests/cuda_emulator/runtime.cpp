#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <emulator/api.h>
#include <emulator/launch.h>
#include "tests/cuda_emulator/block.h"
#include "tests/cuda_emulator/device_memory.h"
#include "tests/cuda_emulator/device_queues.h"
#include "tests/cuda_emulator/streams.h"

namespace {

using trireme::emulator::DeviceMemory;
using trireme::emulator::enqueue;
using trireme::emulator::in_job;
using trireme::emulator::is_capturing;
using trireme::emulator::refuse;
using trireme::emulator::spoil_captures;

constexpr std::size_t kSharedAtOnce = std::size_t{48} << 10, kSharedAtMost = 227 << 10;
constexpr int kComputeCapability = 9, kMultiprocessors = 4;

cudaError_t last_error = cudaSuccess;
cudaError_t explained = cudaSuccess;
std::string reason_of_explained;
std::map<const void*, std::size_t> shared_allowed;
std::map<const std::byte*, std::size_t> pinned;

bool is_pinned(const void* at) {
  const auto* byte = static_cast<const std::byte*>(at);
  const auto next = pinned.upper_bound(byte);
  if (next == pinned.begin()) return false;
  const auto& [first, bytes] = *std::prev(next);
  return byte < first + bytes;
}

// Whether `bytes` at `at` lie in one block of the device's, or outside its memory.
bool in_one_place(const void* at, std::size_t bytes) {
  const DeviceMemory& memory = DeviceMemory::get();
  return bytes == 0 || !memory.holds(at) || memory.holds(at, bytes);
}

bool matches(const void* to, const void* from, cudaMemcpyKind kind) {
  const DeviceMemory& memory = DeviceMemory::get();
  if (kind == cudaMemcpyDefault) return true;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  return memory.holds(to) == to_device && memory.holds(from) == from_device;
}

}  // namespace

namespace trireme::emulator {

cudaError_t refuse(cudaError_t error) {
  return refuse(error, "");
}
cudaError_t refuse(cudaError_t error, const char* reason) {
  last_error = error;
  explained = error;
  reason_of_explained = reason;
  return error;
}

bool may_be_followed(std::uint64_t word) {
  const auto* at = reinterpret_cast<const std::byte*>(word);  // NOLINT(performance-no-int-to-ptr)
  if (DeviceMemory::get().holds(at)) return true;
  if (word < std::uint64_t{1} << 32 || word >> 47 != 0) return true;  // no pointer
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  void* start = reinterpret_cast<void*>(word / page * page);  // NOLINT(performance-no-int-to-ptr)
  return is_pinned(at) || ::msync(start, 1, MS_ASYNC) != 0;   // or nothing of the host's
}

cudaError_t enqueue_kernel(const void* kernel, const cudaLaunchConfig_t& config,
                           std::function<void()> body) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  const bool fine = grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffffu &&
                    grid.y <= 65535 && grid.z <= 65535 && block.x > 0 && block.y > 0 &&
                    block.z > 0 && block.z <= 64 && block.x * block.y * block.z <= 1024;
  if (!fine) return refuse(cudaErrorInvalidConfiguration);
  const auto allowed = shared_allowed.find(kernel);
  const std::size_t most = allowed == shared_allowed.end() ? kSharedAtOnce : allowed->second;
  if (config.dynamicSmemBytes > most) return refuse(cudaErrorInvalidValue);
  if (in_job()) load_kernel(kernel);
  const Launch launch{grid, block, config.dynamicSmemBytes, std::move(body)};
  const auto work = [launch] {
    const dim3& blocks = launch.grid;
    const DeviceMemory::KernelAccess access(std::uint64_t{blocks.x} * blocks.y * blocks.z);
    const std::string wrong = run(launch);
    if (wrong.empty()) return cudaSuccess;
    std::fprintf(stderr, "%s\n", wrong.c_str());
    return refuse(cudaErrorLaunchFailure, wrong.c_str());
  };
  return enqueue(config.stream, work, Work::kKernel);
}

}  // namespace trireme::emulator

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureUnjoined:
      return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    case cudaErrorStreamCaptureImplicit:
      return "cudaErrorStreamCaptureImplicit";
    case cudaErrorCapturedEvent:
      return "cudaErrorCapturedEvent";
    default:
      return "another error";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  static std::string said;
  const bool known = error == explained && !reason_of_explained.empty();
  said = known ? reason_of_explained : cudaGetErrorName(error);
  return said.c_str();
}
cudaError_t cudaPeekAtLastError() {
  return last_error;
}
cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = in_job() ? trireme::emulator::kMostRanks : 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = trireme::emulator::current_device();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  int count = 0;
  cudaGetDeviceCount(&count);
  if (device < 0 || device >= count) return refuse(cudaErrorInvalidDevice);
  trireme::emulator::set_current_device(device);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = kMultiprocessors;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = kComputeCapability;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = int{kSharedAtMost};
      break;
    default:
      return refuse(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"an emulator", DeviceMemory::size(), kComputeCapability, 0, kMultiprocessors};
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0", device);
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  return cudaRuntimeGetVersion(version);
}
cudaError_t cudaDeviceSynchronize() {
  if (is_capturing()) return spoil_captures(cudaErrorStreamCaptureUnsupported);
  return trireme::emulator::finish_streams(false);
}

cudaError_t cudaMalloc(void** at, std::size_t bytes) {
  if (is_capturing()) return spoil_captures(cudaErrorStreamCaptureUnsupported);
  if (in_job()) trireme::emulator::wait_for_running_kernels("cudaMalloc");
  *at = bytes == 0 ? nullptr : DeviceMemory::get().take(bytes);
  return bytes > 0 && !*at ? refuse(cudaErrorMemoryAllocation) : cudaSuccess;
}
cudaError_t cudaFree(void* at) {
  if (is_capturing()) return spoil_captures(cudaErrorStreamCaptureUnsupported);
  const cudaError_t error = cudaDeviceSynchronize();
  if (at && !DeviceMemory::get().give_back(static_cast<std::byte*>(at))) {
    return refuse(cudaErrorInvalidValue);
  }
  return error;
}
cudaError_t cudaHostRegister(void* at, std::size_t bytes, unsigned) {
  if (is_capturing()) return spoil_captures(cudaErrorStreamCaptureUnsupported);
  if (in_job()) trireme::emulator::wait_for_running_kernels("cudaHostRegister");
  if (!at || bytes == 0) return refuse(cudaErrorInvalidValue);
  pinned[static_cast<std::byte*>(at)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* at) {
  if (is_capturing()) return spoil_captures(cudaErrorStreamCaptureUnsupported);
  const cudaError_t error = cudaDeviceSynchronize();
  pinned.erase(static_cast<std::byte*>(at));
  return error;
}
cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  *total = DeviceMemory::size();
  *available = *total - DeviceMemory::get().used();
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (!in_one_place(to, bytes) || !in_one_place(from, bytes) || !matches(to, from, kind)) {
    return refuse(cudaErrorInvalidValue);
  }
  if (bytes == 0) return cudaSuccess;
  // What is not pinned is read before the call returns, and written too.
  if (DeviceMemory::get().holds(from) || is_pinned(from)) {
    const cudaError_t error = enqueue(stream, [=] {
      const DeviceMemory::Access access;
      DeviceMemory::get().count(from, to, bytes);
      std::memmove(to, from, bytes);
      return cudaSuccess;
    });
    const bool at_once = !DeviceMemory::get().holds(to) && !is_pinned(to);
    return at_once ? cudaStreamSynchronize(stream) : error;
  }
  if (stream && stream->capture) return spoil_captures(cudaErrorStreamCaptureUnsupported);
  const auto* first = static_cast<const std::byte*>(from);
  return enqueue(stream, [=, staged = std::vector<std::byte>(first, first + bytes)] {
    const DeviceMemory::Access access;
    DeviceMemory::get().count(nullptr, to, bytes);
    std::memcpy(to, staged.data(), bytes);
    return cudaSuccess;
  });
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t stream) {
  if (!DeviceMemory::get().holds(at, bytes)) return refuse(cudaErrorInvalidValue);
  return enqueue(stream, [=] {
    const DeviceMemory::Access access;
    DeviceMemory::get().count(nullptr, at, bytes);
    std::memset(at, value, bytes);
    return cudaSuccess;
  });
}
cudaError_t cudaMemset(void* at, int value, std::size_t bytes) {
  return cudaMemsetAsync(at, value, bytes, nullptr);
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  if (value < 0 || static_cast<std::size_t>(value) > kSharedAtMost) {
    return refuse(cudaErrorInvalidValue);
  }
  shared_allowed[kernel] = static_cast<std::size_t>(value);
  return cudaSuccess;
}
