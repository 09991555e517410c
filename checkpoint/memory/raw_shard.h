#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/piece.h"
#include "checkpoint/format/shard_report.h"

namespace trireme::checkpoint {

// Offsets of a rank's pieces in its shard of an in-memory snapshot: raw bytes, each piece aligned
// to a cache line, zeros between them.
struct RawLayout {
  explicit RawLayout(std::span<const Piece> pieces);
  std::vector<std::uint64_t> offsets;
  std::uint64_t bytes = 0;  // size of the shard; never zero
};

// A file in a memory file system (tmpfs), mapped for writing. All pages are allocated by the
// constructor, so that later writes neither fail nor block; an existing file of the right size is
// reused.
class MappedShard {
 public:
  // Throws EnvironmentError naming the path if there is not enough space.
  MappedShard(const std::filesystem::path& path, std::uint64_t bytes);
  MappedShard(MappedShard&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  MappedShard& operator=(MappedShard&&) = delete;
  MappedShard(const MappedShard&) = delete;
  MappedShard& operator=(const MappedShard&) = delete;
  ~MappedShard();

  std::span<std::byte> memory() const { return {data_, bytes_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Copies `pieces` to `memory` (layout.bytes). Digests are computed from the bytes read, not from
// those written, so that a later verification detects bad copies.
WrittenShard write_raw_shard(const std::string& name, std::span<const Piece> pieces,
                             const RawLayout& layout, std::span<std::byte> memory);

}  // namespace trireme::checkpoint
