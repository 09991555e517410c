#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>

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

}  // namespace trireme::checkpoint
