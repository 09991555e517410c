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

SharedMemory::Block map_file(int descriptor, std::size_t bytes) {
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) return {};
  // Huge pages as in model/device/cpu/memory.cpp.
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  if (bytes >= 8 * kHugePage) ::madvise(mapped, bytes, MADV_HUGEPAGE);
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

void SharedMemory::enter(comm::SharedMemories& among) {
  among.add(this);
  among_ = &among;
}

SharedMemory::~SharedMemory() {
  if (among_) among_->remove(this);
  unmap(blocks_);
}

}  // namespace trireme
