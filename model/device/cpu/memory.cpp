#include "model/device/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "model/base/error.h"

namespace trireme {

Memory::Memory(std::size_t bytes, Device device) : bytes_(bytes), device_(device) {
  require(device.kind == Device::Kind::kCpu, "memory asked for a device this build has not");
  if (bytes == 0) return;
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw EnvironmentError(say("cannot allocate ", bytes, " bytes: ", std::strerror(errno)));
  }
  // Small blocks stay on small pages: rounding them up to 2 MiB would break the memory plan.
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  if (bytes >= 8 * kHugePage) ::madvise(mapped, bytes, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(mapped);
}
Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      device_(other.device_) {}
Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  return *this;
}
Memory::~Memory() {
  if (data_) ::munmap(data_, bytes_);
}

}  // namespace trireme
