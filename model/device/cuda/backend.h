#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "model/device/devices.h"

// CUDA functions of the device layer, declared without CUDA's headers. Implemented in backend.cpp,
// or in absent.cpp for builds without CUDA, where there is no device and every other call throws
// EnvironmentError. Failures throw EnvironmentError with the device and CUDA's error text.
namespace trireme::cuda {

CudaDevices find_devices();
DeviceProperties properties_of(int device);
CudaVersions versions();

std::byte* allocate(std::size_t bytes, int device);  // zeroed
void release(std::byte* data, int device) noexcept;
// Host memory that is page-aligned, for the copies of all devices.
void pin(std::byte* data, std::size_t bytes, int device);
void unpin(std::byte* data, int device) noexcept;

// A stream is a cudaStream_t, an event a cudaEvent_t.
void* make_stream(int device, bool urgent);
void destroy_stream(void* stream, int device) noexcept;
void synchronize(void* stream, int device);

void* make_event(int device, bool timed);
void destroy_event(void* event, int device) noexcept;
void record(void* event, void* stream, int device);
void make_wait(void* stream, void* event, int device);
bool is_done(void* event, int device);
void synchronize_event(void* event, int device);
double milliseconds(void* earlier, void* later, int device);

// Starts stream capture; end_capture returns the captured work as a cudaGraphExec_t, null if there
// is none.
struct CapturedGraph {
  void* handle = nullptr;
  std::size_t nodes = 0;
};
void begin_capture(void* stream, int device);
CapturedGraph end_capture(void* stream, int device);
void abandon_capture(void* stream, int device) noexcept;
void launch_graph(void* graph, void* stream, int device);
void destroy_graph(void* graph, int device) noexcept;

void copy(std::byte* to, const std::byte* from, std::size_t bytes, void* stream, int device);
void fill(std::byte* to, unsigned char value, std::size_t bytes, void* stream, int device);

// Of the calling thread, for a profiler; see ProfileRange. A negative number is not shown.
void begin_range(const char* name, std::int64_t number) noexcept;
void end_range() noexcept;

}  // namespace trireme::cuda
