#include "model/device/event.h"

#include "model/device/cuda/backend.h"

namespace trireme {

Event::Event(Device device, Use use) : device_(device) {
  if (!device.is_cuda()) return;
  require_present(device);
  handle_ = cuda::make_event(device.index, use == Use::kTiming);
}
Event::~Event() {
  if (handle_ != nullptr) cuda::destroy_event(handle_, device_.index);
}

void Event::record(Stream& stream) {
  if (stream.handle() != nullptr) {
    cuda::record(handle_, stream.handle(), device_.index);
  } else {
    time_ = std::chrono::steady_clock::now();
  }
}
void Event::make_wait(Stream& stream) const {
  if (handle_ != nullptr && stream.handle() != nullptr) {
    cuda::make_wait(stream.handle(), handle_, device_.index);
  }
}
bool Event::is_done() const {
  return handle_ == nullptr || cuda::is_done(handle_, device_.index);
}
void Event::synchronize() const {
  if (handle_ != nullptr) cuda::synchronize_event(handle_, device_.index);
}
double Event::milliseconds_since(const Event& earlier) const {
  if (handle_ != nullptr) return cuda::milliseconds(earlier.handle_, handle_, device_.index);
  return std::chrono::duration<double, std::milli>(time_ - earlier.time_).count();
}

}  // namespace trireme
