#pragma once
#include <cstddef>

namespace trireme::emulator {

// A block's dynamic shared memory, at the end of its pages: the next page cannot be touched.
class SharedMemory {
 public:
  SharedMemory() = default;
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // Room for `bytes`, every byte 0xff.
  void prepare(std::size_t bytes);
  std::byte* data() const { return data_; }

 private:
  std::byte* pages_ = nullptr;
  std::byte* data_ = nullptr;
};

}  // namespace trireme::emulator
