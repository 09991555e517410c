#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>

#include "model/base/file.h"

namespace trireme::checkpoint {

// What direct I/O wants offsets, sizes and memory to be multiples of.
inline constexpr std::size_t kBlock = 4096;

struct Freed {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedBuffer = std::unique_ptr<std::byte, Freed>;

// For direct I/O of kWindow bytes that may begin and end inside a block.
AlignedBuffer make_aligned_buffer();

// From here on the file's reads and writes bypass the page cache, or they do not:
// some file systems (tmpfs) refuse, which returns false.
bool set_direct(const File& file, bool direct);

// Writes in place into an existing file, around the page cache where it can: at
// least as fast, steadier, and the training process keeps its memory.
class PayloadFile {
 public:
  // Also takes the file's blocks from the disk: a full one shows here.
  explicit PayloadFile(const std::filesystem::path& path);
  // Fastest where `offset` is a multiple of kBlock.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void finish();  // syncs and closes

 private:
  File file_;
  File direct_file_;
  bool direct_;
  AlignedBuffer buffer_;
};

}  // namespace trireme::checkpoint
