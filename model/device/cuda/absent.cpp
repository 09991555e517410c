#include "model/base/error.h"
#include "model/device/cuda/backend.h"

namespace trireme::cuda {
namespace {

constexpr const char* kReason = "this program was built without CUDA";

[[noreturn]] void refuse() {
  throw EnvironmentError(kReason);
}

}  // namespace

CudaDevices find_devices() {
  return {0, kReason, "build the preset \"cuda\""};
}
DeviceProperties properties_of(int) {
  refuse();
}
CudaVersions versions() {
  return {};
}

std::byte* allocate(std::size_t, int) {
  refuse();
}
void release(std::byte*, int) noexcept {}
void pin(std::byte*, std::size_t, int) {
  refuse();
}
void unpin(std::byte*, int) noexcept {}

void* make_stream(int, bool) {
  refuse();
}
void destroy_stream(void*, int) noexcept {}
void synchronize(void*, int) {
  refuse();
}

void* make_event(int, bool) {
  refuse();
}
void destroy_event(void*, int) noexcept {}
void record(void*, void*, int) {
  refuse();
}
void make_wait(void*, void*, int) {
  refuse();
}
bool is_done(void*, int) {
  refuse();
}
void synchronize_event(void*, int) {
  refuse();
}
double milliseconds(void*, void*, int) {
  refuse();
}

void begin_capture(void*, int) {
  refuse();
}
CapturedGraph end_capture(void*, int) {
  refuse();
}
void abandon_capture(void*, int) noexcept {}
void launch_graph(void*, void*, int) {
  refuse();
}
void destroy_graph(void*, int) noexcept {}

void copy(std::byte*, const std::byte*, std::size_t, void*, int) {
  refuse();
}
void fill(std::byte*, unsigned char, std::size_t, void*, int) {
  refuse();
}

void begin_range(const char*, std::int64_t) noexcept {}
void end_range() noexcept {}

}  // namespace trireme::cuda
