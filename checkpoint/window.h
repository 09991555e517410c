#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/payload_file.h"

namespace trireme::checkpoint {

// A byte range of a file.
struct Range {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// The shards of a checkpoint, opened on first use with direct I/O where supported, so that
// verification sees what is on disk.
class ShardFiles {
 public:
  ShardFiles(std::filesystem::path folder, const Manifest& manifest);

  const File& operator[](std::size_t shard);

 private:
  std::filesystem::path folder_;
  const Manifest& manifest_;
  std::vector<std::optional<File>> files_;
};

// Opens a file for reading through a Window.
File open_direct(const std::filesystem::path& path);

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

}  // namespace trireme::checkpoint
