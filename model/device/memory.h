#pragma once
#include <cstddef>

#include "model/device/device.h"

namespace trireme {

// A block of zeroed device memory, freed when the object dies. On the CPU it is
// page-aligned and asks for huge pages. Throws EnvironmentError when the device is
// not there or has not enough.
class Memory {
 public:
  Memory() = default;
  Memory(std::size_t bytes, Device device);
  // Of the host, for a device that copies from and to it at full speed while the host does
  // other work. For the CPU any memory is that.
  static Memory pinned(std::size_t bytes, Device device);
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  Device device_;
  bool pinned_ = false;
};

}  // namespace trireme
