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

// Zeroed host memory of each rank of a group on one host, mapped by every rank: a rank writes its
// own memory and reads the others'. Made by World::share. It has no name in any file system and is
// freed with the last process that maps it, however that process ends. A rank may release it while
// others still read what it wrote.
class SharedMemory {
 public:
  // A mapping in this process.
  struct Block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  // Memory of this process that other processes of the same user can map while it is open here.
  class File {
   public:
    // Identifies the file to other processes; all zero if it was not allocated.
    struct Place {
      std::int64_t process = 0;
      std::int64_t descriptor = 0;
      std::uint64_t device = 0;
      std::uint64_t inode = 0;
      std::uint64_t bytes = 0;
    };
    // Allocates at least one byte. Allocation failure leaves the place all zero.
    explicit File(std::size_t bytes);
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File();
    const Place& place() const { return place_; }

   private:
    int descriptor_ = -1;
    Place place_;
  };

  // Maps the files of all ranks; `rank` is this one. Null if one cannot be mapped: its process is
  // on another host, belongs to another user, or has exited.
  static std::unique_ptr<SharedMemory> map(const std::vector<File::Place>& ranks, int rank);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  // Registers with `among`, which outlives it.
  void enter(comm::SharedMemories& among);

  // Backs this rank's memory from `first` on, which is still zero, by huge pages where the kernel
  // has them; the other ranks get them too. For memory of long use: takes longer than touching it.
  void use_huge_pages(std::size_t first = 0);

  std::byte* data() const { return own().data; }
  std::size_t bytes() const { return own().bytes; }
  // Memory of a rank of the group; memory of other ranks is read-only.
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
