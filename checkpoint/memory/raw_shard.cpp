#include "checkpoint/memory/raw_shard.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "checkpoint/format/checksums.h"
#include "checkpoint/format/crc32c.h"
#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::checkpoint {
namespace {

constexpr std::uint64_t kLine = 64;
// Stays in a core's cache between copy and checksum; memcpy of smaller sizes would use regular
// stores, at half the speed.
constexpr std::size_t kCopied = std::size_t{1} << 20;

std::uint64_t rounded_up(std::uint64_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}

Digest copy_piece(const Piece& piece, std::byte* to) {
  std::uint64_t copied = 0;
  const auto read = [&](std::uint64_t at, std::size_t n) {
    if (at + n > copied) {
      const std::uint64_t end =
          std::min<std::uint64_t>(piece.bytes(), std::max(copied + kCopied, at + n));
      std::memcpy(to + copied, piece.data + copied, end - copied);
      copied = end;
    }
    return std::span<const std::byte>(piece.data + at, n);
  };
  return digest_of(piece.box, piece.shape, size_of(piece.dtype), read, kCopied);
}

}  // namespace

RawLayout::RawLayout(std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) {
    offsets.push_back(bytes);
    bytes = rounded_up(bytes + piece.bytes());
  }
  bytes = std::max(bytes, kLine);
}

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

WrittenShard write_raw_shard(const std::string& name, std::span<const Piece> pieces,
                             const RawLayout& layout, std::span<std::byte> memory) {
  require(memory.size() == layout.bytes && pieces.size() == layout.offsets.size(),
          "a shard written to memory of another size");
  WrittenShard shard;
  std::uint64_t end = 0;
  std::uint32_t remainder = 0;  // remainder of the shard up to `end`
  const auto fill_to = [&](std::uint64_t offset) {
    std::memset(memory.data() + end, 0, offset - end);
    remainder = shifted(remainder, offset - end);
    end = offset;
  };
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    fill_to(layout.offsets[i]);
    const Digest digest = copy_piece(pieces[i], memory.data() + end);
    shard.parts.push_back({end, digest});
    const std::uint64_t bytes = pieces[i].bytes();
    remainder = shifted(remainder, bytes) ^
                crc_from(digest.crc32c, bytes);  // crc_from() is its own inverse
    end += bytes;
  }
  fill_to(layout.bytes);
  shard.file = {name, layout.bytes, crc_from(remainder, layout.bytes)};
  return shard;
}

}  // namespace trireme::checkpoint
