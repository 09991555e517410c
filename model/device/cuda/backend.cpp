#include "model/device/cuda/backend.h"

#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <array>

#include "model/device/cuda/check.h"

namespace trireme::cuda {
namespace {

cudaStream_t to_stream(void* stream) {
  return static_cast<cudaStream_t>(stream);
}
cudaEvent_t to_event(void* event) {
  return static_cast<cudaEvent_t>(event);
}

std::string version_text(int version) {
  return say(version / 1000, ".", version % 1000 / 10);
}

// cudaMemcpyDefault infers the direction from the addresses.
constexpr cudaMemcpyKind kByAddress = cudaMemcpyDefault;

}  // namespace

CudaDevices find_devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return {count, {}, {}};
  cudaGetLastError();
  const CudaVersions found = versions();
  if (found.driver == 0) return {0, "no NVIDIA driver is installed or visible here", "install one"};
  if (status == cudaErrorInsufficientDriver) {
    return {0,
            say("the NVIDIA driver runs CUDA up to ", version_text(found.driver),
                ", and this program is built with ", version_text(found.running)),
            "install a newer one"};
  }
  if (status == cudaSuccess || status == cudaErrorNoDevice) {
    return {0, "the NVIDIA driver reports no device", "see nvidia-smi and CUDA_VISIBLE_DEVICES"};
  }
  return {0, say(cudaGetErrorString(status), " (", cudaGetErrorName(status), ")"),
          "see nvidia-smi"};
}

DeviceProperties properties_of(int device) {
  use_device(device);
  cudaDeviceProp found{};
  check(cudaGetDeviceProperties(&found, device), device, "cudaGetDeviceProperties");
  DeviceProperties properties{.name = found.name,
                              .major = found.major,
                              .minor = found.minor,
                              .multiprocessors = found.multiProcessorCount,
                              .memory_bytes = found.totalGlobalMem,
                              .free_bytes = 0,
                              .bus_id = {}};
  std::size_t total = 0;
  check(cudaMemGetInfo(&properties.free_bytes, &total), device, "cudaMemGetInfo");
  std::array<char, 32> bus_id{};
  check(cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), device), device,
        "cudaDeviceGetPCIBusId");
  properties.bus_id = bus_id.data();
  return properties;
}

CudaVersions versions() {
  CudaVersions found{.compiled = CUDART_VERSION, .running = 0, .driver = 0};
  cudaRuntimeGetVersion(&found.running);
  cudaDriverGetVersion(&found.driver);
  return found;
}

std::byte* allocate(std::size_t bytes, int device) {
  use_device(device);
  void* data = nullptr;
  check(cudaMalloc(&data, bytes), device, "cudaMalloc of ", bytes, " bytes");
  check(cudaMemset(data, 0, bytes), device, "cudaMemset of ", bytes, " bytes");
  // cudaMemset may return early, and our streams do not synchronize with its stream.
  check(cudaDeviceSynchronize(), device, "cudaDeviceSynchronize");
  return static_cast<std::byte*>(data);
}
void release(std::byte* data, int device) noexcept {
  cudaSetDevice(device);
  cudaFree(data);
}

void pin(std::byte* data, std::size_t bytes, int device) {
  use_device(device);
  check(cudaHostRegister(data, bytes, cudaHostRegisterPortable), device, "cudaHostRegister of ",
        bytes, " bytes");
}
void unpin(std::byte* data, int device) noexcept {
  cudaSetDevice(device);
  cudaHostUnregister(data);
}

void* make_stream(int device, bool urgent) {
  use_device(device);
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), device,
        "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgent ? greatest : least),
        device, "cudaStreamCreateWithPriority");
  return stream;
}
void destroy_stream(void* stream, int device) noexcept {
  cudaSetDevice(device);
  cudaStreamDestroy(to_stream(stream));
}
void synchronize(void* stream, int device) {
  check(cudaStreamSynchronize(to_stream(stream)), device, "cudaStreamSynchronize");
}

void* make_event(int device, bool timed) {
  use_device(device);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming), device,
        "cudaEventCreateWithFlags");
  return event;
}
void destroy_event(void* event, int device) noexcept {
  cudaSetDevice(device);
  cudaEventDestroy(to_event(event));
}
void record(void* event, void* stream, int device) {
  check(cudaEventRecord(to_event(event), to_stream(stream)), device, "cudaEventRecord");
}
void make_wait(void* stream, void* event, int device) {
  check(cudaStreamWaitEvent(to_stream(stream), to_event(event), 0), device, "cudaStreamWaitEvent");
}
bool is_done(void* event, int device) {
  const cudaError_t status = cudaEventQuery(to_event(event));
  if (status == cudaErrorNotReady) return false;
  check(status, device, "cudaEventQuery");
  return true;
}
void synchronize_event(void* event, int device) {
  check(cudaEventSynchronize(to_event(event)), device, "cudaEventSynchronize");
}
double milliseconds(void* earlier, void* later, int device) {
  float elapsed = 0;
  check(cudaEventElapsedTime(&elapsed, to_event(earlier), to_event(later)), device,
        "cudaEventElapsedTime");
  return static_cast<double>(elapsed);
}

void begin_capture(void* stream, int device) {
  use_device(device);
  // Thread-local mode: other threads may make calls that are illegal during capture.
  check(cudaStreamBeginCapture(to_stream(stream), cudaStreamCaptureModeThreadLocal), device,
        "cudaStreamBeginCapture");
}
CapturedGraph end_capture(void* stream, int device) {
  cudaGraph_t recorded = nullptr;
  check(cudaStreamEndCapture(to_stream(stream), &recorded), device, "cudaStreamEndCapture");
  std::size_t nodes = 0;
  cudaGraphExec_t graph = nullptr;
  cudaError_t status = cudaGraphGetNodes(recorded, nullptr, &nodes);
  if (status == cudaSuccess && nodes > 0) status = cudaGraphInstantiate(&graph, recorded, 0);
  cudaGraphDestroy(recorded);
  check(status, device, "cudaGraphInstantiate of ", nodes, " nodes");
  return {graph, nodes};
}
void abandon_capture(void* stream, int device) noexcept {
  cudaSetDevice(device);
  cudaGraph_t recorded = nullptr;
  cudaStreamEndCapture(to_stream(stream), &recorded);
  if (recorded != nullptr) cudaGraphDestroy(recorded);
  cudaGetLastError();
}
void launch_graph(void* graph, void* stream, int device) {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), to_stream(stream)), device,
        "cudaGraphLaunch");
}
void destroy_graph(void* graph, int device) noexcept {
  cudaSetDevice(device);
  cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
}

void copy(std::byte* to, const std::byte* from, std::size_t bytes, void* stream, int device) {
  check(cudaMemcpyAsync(to, from, bytes, kByAddress, to_stream(stream)), device,
        "cudaMemcpyAsync of ", bytes, " bytes");
}
void fill(std::byte* to, unsigned char value, std::size_t bytes, void* stream, int device) {
  check(cudaMemsetAsync(to, value, bytes, to_stream(stream)), device, "cudaMemsetAsync of ", bytes,
        " bytes");
}

void begin_range(const char* name, std::int64_t number) noexcept {
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = name;
  if (number >= 0) {
    range.payloadType = NVTX_PAYLOAD_TYPE_INT64;
    range.payload.llValue = number;
  }
  nvtxRangePushEx(&range);
}
void end_range() noexcept {
  nvtxRangePop();
}

}  // namespace trireme::cuda
