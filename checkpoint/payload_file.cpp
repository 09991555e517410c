#include "checkpoint/payload_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>

#include "checkpoint/digest.h"
#include "model/base/error.h"

namespace trireme::checkpoint {
namespace {

// Bytes per call: the disk idles between two calls.
constexpr std::size_t kAtOnce = std::size_t{64} << 20;

void write_all_at(const File& file, std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n =
        ::pwrite(file.descriptor(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_file_error("write", file.path(), errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

}  // namespace

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

PayloadFile::PayloadFile(const std::filesystem::path& path)
    : file_(File::open_write(path)),
      direct_file_(File::open_write(path)),
      direct_(set_direct(direct_file_, true)),
      buffer_(make_aligned_buffer()) {
  const int reason = ::posix_fallocate(file_.descriptor(), 0, static_cast<off_t>(file_.size()));
  if (reason != 0 && reason != EOPNOTSUPP && reason != EINVAL) {
    throw_file_error("reserve space for", path, reason);
  }
}

void PayloadFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (direct_ && offset % kBlock == 0 && bytes.size() >= kBlock) {
    const std::byte* from = bytes.data();
    const bool aligned = reinterpret_cast<std::uintptr_t>(from) % kBlock == 0;
    const std::size_t n = std::min(bytes.size() / kBlock * kBlock, aligned ? kAtOnce : kWindow);
    if (!aligned) {
      std::memcpy(buffer_.get(), from, n);
      from = buffer_.get();
    }
    const ssize_t written =
        ::pwrite(direct_file_.descriptor(), from, n, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EINVAL) {  // the device has larger blocks
      direct_ = false;
      break;
    }
    if (written < 0) throw_file_error("write", file_.path(), errno);
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  if (bytes.empty()) return;
  write_all_at(file_, offset, bytes);
  // Starts writeback now, so that the final sync has little left to do.
  ::sync_file_range(file_.descriptor(), static_cast<off_t>(offset),
                    static_cast<off_t>(bytes.size()), SYNC_FILE_RANGE_WRITE);
}

void PayloadFile::finish() {
  direct_file_.close();
  file_.sync();
  file_.close();
}

}  // namespace trireme::checkpoint
