#include "checkpoint/write/shard_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "checkpoint/format/checksums.h"
#include "checkpoint/hdf5/shard_file.h"
#include "checkpoint/read/window.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/hex.h"

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

// Writes to an existing file, with direct I/O if possible: at least as fast, with less variance,
// and without evicting memory of the training process.
class PayloadFile {
 public:
  // Also allocates the file's blocks, so that a full disk fails here.
  explicit PayloadFile(const std::filesystem::path& path);
  // Fastest if `offset` is a multiple of kBlock.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void finish();  // syncs and closes

 private:
  File file_;
  File direct_file_;
  bool direct_;
  AlignedBuffer buffer_;
};

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

// Writes a piece and returns its digest. The checksums of its blocks, if known, give that where the
// piece is one contiguous range of its tensor; else it is computed while the data is in the cache.
Digest write_piece(PayloadFile& file, const Piece& piece, std::uint64_t offset,
                   const std::vector<std::uint32_t>* blocks) {
  const std::uint64_t bytes = piece.bytes();
  if (blocks) {
    const std::uint32_t crc = joined_crc(*blocks, bytes);
    if (const auto share = share_of(piece.box, piece.shape, size_of(piece.dtype), crc)) {
      file.write_at(offset, {piece.data, bytes});
      return {crc, *share};
    }
  }
  std::uint64_t written = 0;
  const auto read = [&](std::uint64_t at, std::size_t n) {
    if (at + n > written) {
      const std::uint64_t to = std::min<std::uint64_t>(bytes, written + kWindow);
      file.write_at(offset + written, {piece.data + written, to - written});
      written = to;
    }
    return std::span<const std::byte>(piece.data + at, n);
  };
  return digest_of(piece.box, piece.shape, size_of(piece.dtype), read);
}

// `scan` covers the blocks of all pieces.
void check_read_back(const std::filesystem::path& path, const Scan& scan,
                     std::span<const Piece> pieces, std::vector<WrittenShard::Part>& parts) {
  auto block = scan.ranges.begin();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::uint64_t bytes = pieces[i].bytes();
    const auto count = static_cast<std::ptrdiff_t>(blocks_of({0, bytes}).size());
    parts[i].blocks.assign(block, block + count);
    block += count;
    const std::uint32_t got = joined_crc(parts[i].blocks, bytes);
    if (count == 1) parts[i].blocks.clear();
    if (got == parts[i].digest.crc32c) continue;
    throw CheckpointError(say(path.string(), " reads back differently: tensor ", pieces[i].tensor,
                              ", CRC32C ", hex(got), ", written ", hex(parts[i].digest.crc32c)));
  }
}

}  // namespace

WrittenShard write_shard(const std::filesystem::path& path, const hdf5::Origin& origin,
                         std::span<const Piece> pieces,
                         std::span<const std::vector<std::uint32_t>> known) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<std::uint64_t> offsets = hdf5::lay_out(path, origin, pieces);
  WrittenShard shard;
  std::vector<Range> blocks;
  {
    PayloadFile file(path);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const Digest digest =
          write_piece(file, pieces[i], offsets[i], known.empty() ? nullptr : &known[i]);
      shard.parts.push_back({offsets[i], digest, {}});
      for (const Range block : blocks_of({offsets[i], pieces[i].bytes()})) blocks.push_back(block);
    }
    file.finish();
  }
  shard.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Scan scan = scan_file(path, blocks);
  check_read_back(path, scan, pieces, shard.parts);
  shard.file = {path.filename(), scan.bytes, scan.crc32c};
  return shard;
}

}  // namespace trireme::checkpoint
