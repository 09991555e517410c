#include "checkpoint/read/window.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <numeric>

#include "model/base/error.h"

namespace trireme::checkpoint {

AlignedBuffer make_aligned_buffer() {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  constexpr std::size_t kBytes = (kWindow + 2 * kBlock + kHugePage - 1) / kHugePage * kHugePage;
  AlignedBuffer buffer(static_cast<std::byte*>(std::aligned_alloc(kHugePage, kBytes)));
  if (!buffer) throw std::bad_alloc();
  // Huge pages, since the kernel pins every page for each transfer.
  ::madvise(buffer.get(), kBytes, MADV_HUGEPAGE);
  return buffer;
}

bool set_direct(const File& file, bool direct) {
  const int flags = ::fcntl(file.descriptor(), F_GETFL);
  if (flags < 0) return false;
  const int wanted = direct ? flags | O_DIRECT : flags & ~O_DIRECT;
  return ::fcntl(file.descriptor(), F_SETFL, wanted) == 0;
}

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

Scan scan_file(const std::filesystem::path& path, std::span<const Range> ranges) {
  const File file = open_direct(path);
  Scan scan{file.size(), 0, std::vector<std::uint32_t>(ranges.size())};
  std::vector<std::size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return ranges[a].offset < ranges[b].offset; });

  const AlignedBuffer buffer = make_aligned_buffer();
  Window window(file, {0, scan.bytes}, buffer);

  std::uint32_t whole = 0;    // remainder of all bytes before `at`
  std::uint32_t segment = 0;  // remainder of the current gap or range
  std::uint64_t segment_bytes = 0;
  std::size_t next = 0;  // index into `order` of the current or next range
  const auto end_segment = [&] {
    whole = shifted(whole, segment_bytes) ^ segment;
    segment = 0;
    segment_bytes = 0;
  };
  std::uint64_t at = 0;
  while (at < scan.bytes) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, scan.bytes - at));
    const std::span<const std::byte> bytes = window.at(at, n);
    for (std::size_t done = 0; done < n;) {
      const std::uint64_t here = at + done;
      std::uint64_t stop = at + n;
      bool ends = false;
      bool inside = false;
      if (next < order.size()) {
        const Range& range = ranges[order[next]];
        inside = here >= range.offset;
        const std::uint64_t border = inside ? range.offset + range.bytes : range.offset;
        if (border <= stop) {
          stop = border;
          ends = true;
        }
      }
      const auto length = static_cast<std::size_t>(stop - here);
      segment = remainder_of(bytes.subspan(done, length), segment);
      segment_bytes += length;
      done += length;
      if (!ends) continue;
      if (inside) scan.ranges[order[next++]] = crc_from(segment, segment_bytes);
      end_segment();
    }
    at += n;
  }
  end_segment();
  scan.crc32c = crc_from(whole, scan.bytes);
  return scan;
}

std::uint32_t crc_of_range(const File& file, Range range, const AlignedBuffer& buffer,
                           const VisitBytes& visit) {
  Window window(file, range, buffer);
  std::uint32_t remainder = 0;
  for (std::uint64_t done = 0; done < range.bytes;) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, range.bytes - done));
    const std::span<const std::byte> bytes = window.at(done, n);
    remainder = remainder_of(bytes, remainder);
    visit(bytes);
    done += n;
  }
  return crc_from(remainder, range.bytes);
}

}  // namespace trireme::checkpoint
