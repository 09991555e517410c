#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/payload_file.h"

namespace trireme::checkpoint {

// A run of bytes of a file.
struct Range {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// A checkpoint's shards, each opened when it is first asked for, for direct reads
// where the file system allows them: what is verified is then what the disk holds.
class ShardFiles {
 public:
  ShardFiles(std::filesystem::path folder, const Manifest& manifest);

  const File& operator[](std::size_t shard);

 private:
  std::filesystem::path folder_;
  const Manifest& manifest_;
  std::vector<std::optional<File>> files_;
};

// A file to be read through a Window.
File open_direct(const std::filesystem::path& path);

// Reads one range of a file, mostly by ascending places, through a buffer from
// make_aligned_buffer that it has for itself meanwhile.
class Window {
 public:
  Window(const File& file, Range range, const AlignedBuffer& buffer)
      : Window(file, range, buffer.get()) {}
  // Through memory at a multiple of kBlock: of the range's bytes, but kWindow at most, and
  // 2 * kBlock more.
  Window(const File& file, Range range, std::byte* memory)
      : file_(file), range_(range), memory_(memory) {}

  // Bytes [at, at + n) of the range, n at most kWindow; valid until the next call.
  // Throws EnvironmentError when they cannot be read.
  std::span<const std::byte> at(std::uint64_t at, std::size_t n);

 private:
  void fill(std::uint64_t from, std::uint64_t to);

  const File& file_;
  Range range_;
  std::byte* memory_;
  std::uint64_t from_ = 0;  // the file's bytes [from_, to_) are in the buffer
  std::uint64_t to_ = 0;
};

}  // namespace trireme::checkpoint
