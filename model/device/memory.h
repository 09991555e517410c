#pragma once
#include <cstddef>

#include "model/device/device.h"

namespace trireme {

// A block of zeroed device memory, freed by the destructor. On the CPU it is page-aligned and on
// huge pages. Throws EnvironmentError if the device does not exist or is out of memory.
class Memory {
 public:
  Memory() = default;
  Memory(std::size_t bytes, Device device);
  // Pinned host memory, for fast asynchronous copies from and to `device`; ordinary memory for the
  // CPU.
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
