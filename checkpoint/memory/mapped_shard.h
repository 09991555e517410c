#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace trireme::checkpoint {

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

}  // namespace trireme::checkpoint
