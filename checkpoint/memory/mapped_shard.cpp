#include "checkpoint/memory/mapped_shard.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::checkpoint {
namespace {

[[noreturn]] void fail(const char* what, const std::filesystem::path& path, int reason) {
  throw EnvironmentError(say("cannot ", what, " ", path.string(), ": ", std::strerror(reason)));
}

}  // namespace

MappedShard::MappedShard(const std::filesystem::path& path, std::uint64_t bytes) : bytes_(bytes) {
  File::open_append(path).close();  // there it is, whether or not it was
  const File file = File::open_write(path);
  const int descriptor = file.descriptor();
  if (file.size() != bytes && ::ftruncate(descriptor, 0) != 0) fail("empty", path, errno);
  const int reason = ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  if (reason != 0) fail("take memory for", path, reason);
  void* mapped =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
  if (mapped == MAP_FAILED) fail("map", path, errno);
  data_ = static_cast<std::byte*>(mapped);
}

MappedShard::~MappedShard() {
  if (data_) ::munmap(data_, bytes_);
}

}  // namespace trireme::checkpoint
