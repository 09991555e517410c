#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/format/checksums.h"
#include "checkpoint/format/manifest.h"
#include "model/base/file.h"

namespace trireme::checkpoint {

// Alignment of offsets, sizes and memory for direct I/O.
inline constexpr std::size_t kBlock = 4096;

struct Freed {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedBuffer = std::unique_ptr<std::byte, Freed>;

// A buffer for direct I/O of kWindow bytes at any offset.
AlignedBuffer make_aligned_buffer();

// Switches direct I/O (bypassing the page cache) on or off. Returns false if the file system (such
// as tmpfs) does not support it.
bool set_direct(const File& file, bool direct);

// Opens a file for reading through a Window, so that verification sees what is on disk.
File open_direct(const std::filesystem::path& path);

// The shards of a checkpoint, opened on first use with open_direct().
class ShardFiles {
 public:
  ShardFiles(std::filesystem::path folder, const Manifest& manifest);

  const File& operator[](std::size_t shard);

 private:
  std::filesystem::path folder_;
  const Manifest& manifest_;
  std::vector<std::optional<File>> files_;
};

// Reads a range of a file, mostly sequentially, through a buffer from make_aligned_buffer, which it
// uses exclusively.
class Window {
 public:
  Window(const File& file, Range range, const AlignedBuffer& buffer)
      : Window(file, range, buffer.get()) {}
  // `memory` is aligned to kBlock; its size is that of the range, at most kWindow, plus 2 * kBlock.
  Window(const File& file, Range range, std::byte* memory)
      : file_(file), range_(range), memory_(memory) {}

  // Bytes [at, at + n) of the range, n at most kWindow; valid until the next call. Throws
  // EnvironmentError if they cannot be read.
  std::span<const std::byte> at(std::uint64_t at, std::size_t n);

 private:
  void fill(std::uint64_t from, std::uint64_t to);

  const File& file_;
  Range range_;
  std::byte* memory_;
  std::uint64_t from_ = 0;  // the buffer holds bytes [from_, to_) of the file
  std::uint64_t to_ = 0;
};

struct Scan {
  std::uint64_t bytes = 0;            // the file's size
  std::uint32_t crc32c = 0;           // of the whole file
  std::vector<std::uint32_t> ranges;  // CRC32C of each requested range
};

// Reads a file once and computes the CRC32C of the whole file and of `ranges`, which do not overlap
// and are inside the file. Throws EnvironmentError if it cannot be read.
Scan scan_file(const std::filesystem::path& path, std::span<const Range> ranges);

// CRC32C of one range of an open file; `visit` gets all its bytes in order.
using VisitBytes = std::function<void(std::span<const std::byte>)>;
std::uint32_t crc_of_range(
    const File& file, Range range, const AlignedBuffer& buffer,
    const VisitBytes& visit = [](std::span<const std::byte>) {});

}  // namespace trireme::checkpoint
