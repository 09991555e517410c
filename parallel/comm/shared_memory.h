#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace trireme {
namespace comm {
class SharedMemories;
}

// Zeroed host memory of each rank of a group on one host, all of which every rank maps: what
// a rank writes to its own, the others read as they read theirs. Made by World::share. It has
// no name in any file system and is gone with the last process that maps it, however that
// ends. A rank that is done may drop it while others still read what it wrote.
class SharedMemory {
 public:
  // A mapping in this process.
  struct Block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  // Memory of this process that others of the same user may map while it is kept open here.
  class File {
   public:
    // Where others find it; all zero where there is none.
    struct Place {
      std::int64_t process = 0;
      std::int64_t descriptor = 0;
      std::uint64_t device = 0;
      std::uint64_t inode = 0;
      std::uint64_t bytes = 0;
    };
    // Of at least one byte. Where the system has none to give it has no place.
    explicit File(std::size_t bytes);
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File();
    const Place& place() const { return place_; }

   private:
    int descriptor_ = -1;
    Place place_;
  };

  // Maps those of all ranks, this one `rank` among them; nothing where one cannot be
  // mapped: its process is on another host, is another user's, or is gone.
  static std::unique_ptr<SharedMemory> map(const std::vector<File::Place>& ranks, int rank);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  // `among` knows of it, and must not die first.
  void enter(comm::SharedMemories& among);

  std::byte* data() const { return own().data; }
  std::size_t bytes() const { return own().bytes; }
  // Of a rank of the group; what is not this rank's is only to be read.
  const Block& of(int rank) const { return blocks_[static_cast<std::size_t>(rank)]; }
  int ranks() const { return static_cast<int>(blocks_.size()); }

 private:
  SharedMemory(std::vector<Block> blocks, int rank) : blocks_(std::move(blocks)), rank_(rank) {}
  const Block& own() const { return of(rank_); }

  std::vector<Block> blocks_;
  int rank_;
  comm::SharedMemories* among_ = nullptr;
};

}  // namespace trireme
