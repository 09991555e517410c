#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace trireme::checkpoint {

// A file in a file system of memory, mapped for writing. Its pages are taken when it is
// made, so that later writes can neither fail nor wait for them; a file that is there
// already with the right size is used again as it is.
class MappedShard {
 public:
  // Throws EnvironmentError naming the path when there is no room.
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
