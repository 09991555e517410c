#include "model/device/memory.h"

#include <utility>

#include "model/device/cpu/memory.h"
#include "model/device/cuda/backend.h"

namespace trireme {

Memory::Memory(std::size_t bytes, Device device) : bytes_(bytes), device_(device) {
  if (bytes == 0) return;
  require_present(device);
  data_ = device.is_cuda() ? cuda::allocate(bytes, device.index) : cpu::allocate(bytes);
}
Memory Memory::pinned(std::size_t bytes, Device device) {
  if (!device.is_cuda() || bytes == 0) return {bytes, Device{}};
  require_present(device);
  Memory memory;
  memory.data_ = cpu::allocate(bytes);
  memory.bytes_ = bytes;
  // Twelve times as fast as cudaHostAlloc for gigabytes (H200): all threads fault huge pages in.
  cpu::touch(memory.data_, bytes);
  try {
    cuda::pin(memory.data_, bytes, device.index);
  } catch (...) {
    cpu::release(std::exchange(memory.data_, nullptr), bytes);
    throw;
  }
  memory.device_ = device;
  memory.pinned_ = true;
  return memory;
}
Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      device_(other.device_),
      pinned_(other.pinned_) {}
Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  std::swap(pinned_, other.pinned_);
  return *this;
}
Memory::~Memory() {
  if (data_ == nullptr) return;
  if (pinned_) cuda::unpin(data_, device_.index);
  if (device_.is_cuda() && !pinned_) {
    cuda::release(data_, device_.index);
  } else {
    cpu::release(data_, bytes_);
  }
}

}  // namespace trireme
