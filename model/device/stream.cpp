#include "model/device/stream.h"

#include <utility>

#include "model/device/cuda/backend.h"

namespace trireme {

Stream::Stream(Device device, Priority priority) : device_(device) {
  if (!on_cuda()) return;
  require_present(device);
  handle_ = cuda::make_stream(device.index, priority == Priority::kUrgent);
}
Stream::Stream(Stream&& other) noexcept
    : device_(other.device_),
      tally_(other.tally_),
      handle_(std::exchange(other.handle_, nullptr)) {}
Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(tally_, other.tally_);
  std::swap(handle_, other.handle_);
  return *this;
}
Stream::~Stream() {
  if (handle_ != nullptr) cuda::destroy_stream(handle_, device_.index);
}

void Stream::synchronize() {
  if (handle_ != nullptr) cuda::synchronize(handle_, device_.index);
}

}  // namespace trireme
