#include "parallel/comm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "model/base/error.h"
#include "parallel/comm/shared_memories.h"

namespace trireme {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// As in model/device/cpu/memory.cpp.
bool has_huge_pages(std::size_t bytes) {
  return bytes >= 8 * kHugePage;
}

// Begins at a huge page, which the kernel does not ensure for shared memory. Null: no address
// space.
void* aligned_address(std::size_t bytes) {
  const std::size_t reserved = bytes + kHugePage;
  void* const found =
      ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(found);
  const std::size_t before =
      (kHugePage - reinterpret_cast<std::uintptr_t>(begin) % kHugePage) % kHugePage;
  ::munmap(begin, reserved);
  return begin + before;
}

SharedMemory::Block map_file(int descriptor, std::size_t bytes) {
  void* const address = has_huge_pages(bytes) ? aligned_address(bytes) : nullptr;
  void* mapped = ::mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) return {};
  if (has_huge_pages(bytes)) ::madvise(mapped, bytes, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(mapped), bytes};
}

// Opened through /proc; the pid or descriptor may have been reused by now.
SharedMemory::Block map_place(const SharedMemory::File::Place& place) {
  const std::string path = say("/proc/", place.process, "/fd/", place.descriptor);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return {};
  struct stat seen {};
  SharedMemory::Block block;
  if (::fstat(descriptor, &seen) == 0 && seen.st_dev == place.device &&
      seen.st_ino == place.inode && static_cast<std::uint64_t>(seen.st_size) == place.bytes) {
    block = map_file(descriptor, place.bytes);
  }
  ::close(descriptor);
  return block;
}

void unmap(const std::vector<SharedMemory::Block>& blocks) {
  for (const SharedMemory::Block& block : blocks) {
    if (block.data) ::munmap(block.data, block.bytes);
  }
}

}  // namespace

SharedMemory::File::File(std::size_t bytes) {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  descriptor_ = ::memfd_create("trireme", MFD_CLOEXEC);
  struct stat made {};
  if (descriptor_ < 0 || ::ftruncate(descriptor_, static_cast<off_t>(size)) != 0 ||
      ::fstat(descriptor_, &made) != 0) {
    return;
  }
  place_ = {.process = ::getpid(),
            .descriptor = descriptor_,
            .device = made.st_dev,
            .inode = made.st_ino,
            .bytes = size};
}

SharedMemory::File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::unique_ptr<SharedMemory> SharedMemory::map(const std::vector<File::Place>& ranks, int rank) {
  std::vector<Block> blocks;
  for (const File::Place& place : ranks) {
    const Block block = place.bytes == 0 ? Block{} : map_place(place);
    if (!block.data) {
      unmap(blocks);
      return nullptr;
    }
    blocks.push_back(block);
  }
  return std::unique_ptr<SharedMemory>(new SharedMemory(std::move(blocks), rank));
}

// Most kernels give shared memory huge pages on this demand only
// (/sys/kernel/mm/transparent_hugepage/shmem_enabled is "never"), where a page has been touched.
void SharedMemory::use_huge_pages(std::size_t first) {
  constexpr int kCollapse = 25;  // MADV_COLLAPSE of Linux 6.1, which glibc 2.36 does not know
  if (!has_huge_pages(bytes())) return;
  const std::size_t begin = (first + kHugePage - 1) / kHugePage * kHugePage;
  for (std::size_t i = begin; i + kHugePage <= bytes(); i += kHugePage) {
    std::byte* const page = data() + i;
    *static_cast<volatile std::byte*>(page) = std::byte{0};
    if (::madvise(page, kHugePage, kCollapse) != 0) return;
  }
}

void SharedMemory::enter(comm::SharedMemories& among) {
  among.add(this);
  among_ = &among;
}

SharedMemory::~SharedMemory() {
  if (among_) among_->remove(this);
  unmap(blocks_);
}

}  // namespace trireme
