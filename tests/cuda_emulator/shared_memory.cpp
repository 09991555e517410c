#include "tests/cuda_emulator/shared_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "model/base/error.h"

namespace trireme::emulator {

constexpr std::size_t kMost = std::size_t{228} << 10;  // what an H100 has

SharedMemory::~SharedMemory() {
  if (pages_) ::munmap(pages_, kMost + static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
}

void SharedMemory::prepare(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  require(bytes <= kMost, "no device has ", bytes, " bytes of shared memory");
  if (!pages_) {
    void* pages =
        ::mmap(nullptr, kMost + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(pages != MAP_FAILED, "no memory for shared memory");
    pages_ = static_cast<std::byte*>(pages);
    require(::mprotect(pages_ + kMost, page, PROT_NONE) == 0, "no guard after shared memory");
  }
  data_ = pages_ + (kMost - (bytes + 15) / 16 * 16);
  std::memset(data_, 0xff, bytes);
}

}  // namespace trireme::emulator
