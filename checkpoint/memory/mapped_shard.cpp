#include "checkpoint/memory/mapped_shard.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::checkpoint {
MappedShard::MappedShard(const std::filesystem::path& path, std::uint64_t bytes) : bytes_(bytes) {
  File::open_append(path).close();  // creates the file if it does not exist
  const File file = File::open_write(path);
  const int descriptor = file.descriptor();
  if (file.size() != bytes && ::ftruncate(descriptor, 0) != 0)
    throw_file_error("empty", path, errno);
  const int reason = ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  if (reason != 0) throw_file_error("take memory for", path, reason);
  void* mapped =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
  if (mapped == MAP_FAILED) throw_file_error("map", path, errno);
  data_ = static_cast<std::byte*>(mapped);
}

MappedShard::~MappedShard() {
  if (data_) ::munmap(data_, bytes_);
}

}  // namespace trireme::checkpoint
