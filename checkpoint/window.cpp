#include "checkpoint/window.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "checkpoint/digest.h"
#include "model/base/error.h"

namespace trireme::checkpoint {

File open_direct(const std::filesystem::path& path) {
  File file = File::open_read(path);
  // Without direct I/O, drop the page cache as far as possible.
  if (!set_direct(file, true)) ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  return file;
}

ShardFiles::ShardFiles(std::filesystem::path folder, const Manifest& manifest)
    : folder_(std::move(folder)), manifest_(manifest) {
  files_.resize(manifest.shards.size());
}

const File& ShardFiles::operator[](std::size_t shard) {
  if (!files_[shard]) files_[shard] = open_direct(folder_ / manifest_.shards[shard].name);
  return *files_[shard];
}

std::span<const std::byte> Window::at(std::uint64_t at, std::size_t n) {
  require(n <= kWindow && at + n <= range_.bytes, "a read outside its window");
  const std::uint64_t from = range_.offset + at;
  if (from < from_ || from + n > to_) {
    fill(from, range_.offset + std::min<std::uint64_t>(at + kWindow, range_.bytes));
  }
  return {memory_ + (from - from_), n};
}

// Reads whole blocks around [from, to), as direct I/O requires; the file may end inside the last
// one.
void Window::fill(std::uint64_t from, std::uint64_t to) {
  from_ = to_ = from / kBlock * kBlock;
  const std::uint64_t end = (to + kBlock - 1) / kBlock * kBlock;
  bool buffered = false;
  while (to_ < to) {
    // After a short read, continue at the start of the incomplete block.
    const std::uint64_t place = to_ / kBlock * kBlock;
    const ssize_t got = ::pread(file_.descriptor(), memory_ + (place - from_), end - place,
                                static_cast<off_t>(place));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EINVAL && !buffered) {  // the device has larger blocks
      buffered = set_direct(file_, false);
      if (buffered) continue;
    }
    if (got < 0) {
      throw EnvironmentError(
          say("cannot read ", file_.path().string(), ": ", std::strerror(errno)));
    }
    const std::uint64_t reached = place + static_cast<std::uint64_t>(got);
    if (reached <= to_) {
      throw EnvironmentError(
          say("cannot read ", file_.path().string(), ": it ends at byte ", reached));
    }
    to_ = reached;
  }
}

}  // namespace trireme::checkpoint
