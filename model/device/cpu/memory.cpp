#include "model/device/cpu/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "model/base/error.h"
#include "model/device/cpu/threads.h"

namespace trireme::cpu {

std::byte* allocate(std::size_t bytes) {
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw EnvironmentError(say("cannot allocate ", bytes, " bytes: ", std::strerror(errno)));
  }
  // Small blocks use small pages: rounding up to 2 MiB would exceed the memory plan.
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  if (bytes >= 8 * kHugePage) ::madvise(mapped, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(mapped);
}

void touch(std::byte* data, std::size_t bytes) {
  constexpr std::int64_t kPage = 4096, kGrain = 4096;  // bytes, pages
  const std::int64_t pages = (static_cast<std::int64_t>(bytes) + kPage - 1) / kPage;
  parallel_for(pages, kGrain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t page = first; page < last; ++page) data[page * kPage] = std::byte{0};
  });
}

void release(std::byte* data, std::size_t bytes) noexcept {
  ::munmap(data, bytes);
}

}  // namespace trireme::cpu
