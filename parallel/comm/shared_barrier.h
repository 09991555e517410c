#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "parallel/comm/shared_memories.h"

namespace trireme::comm {

// A barrier for the ranks of a group on one host: counters in shared memory, without MPI calls. A
// waiting rank spins briefly and then sleeps on a futex, since there may be more ranks than cores.
// Not thread-safe within a rank.
class SharedBarrier {
 public:
  // Description of a rank's next call, for the others to compare and to find its tensor.
  struct Call {
    std::uint32_t what = 0;  // operation, reduction and dtype
    std::uint32_t unused = 0;
    std::int64_t count = 0;
    SharedMemories::Place place;
  };
  // Part of a rank's tensor that is for one other rank, in elements.
  struct Block {
    std::int64_t first = 0, count = 0;
  };
  // Bytes of shared memory of each of `ranks` ranks.
  static constexpr std::size_t bytes(int ranks) {
    return kPageBytes + static_cast<std::size_t>(ranks) * sizeof(Block);
  }

  // `pages` is the zeroed shared memory of the group's ranks.
  SharedBarrier(std::unique_ptr<SharedMemory> pages, int rank);

  // Publishes `call` for the next meet(); it replaces the previous one.
  void show(const Call& call);
  // The call that `rank` published before the last meet().
  const Call& shown_by(int rank) const;
  // The blocks of the tensor of `rank`, by the rank that they are for. A rank writes its own before
  // a meet() and reads the others' after it.
  std::span<Block> blocks_of(int rank) const;
  // Returns when all ranks have called it. Throws PeerError after give_up().
  void meet();
  // Ends current and later waits of this rank. Thread-safe.
  void give_up() { given_up_.store(true, std::memory_order_release); }

 private:
  static constexpr std::size_t kPageBytes = 128;
  struct Page;
  Page& page_of(int rank) const;
  void wait_for(Page& page);

  std::unique_ptr<SharedMemory> pages_;
  int rank_;
  std::uint32_t meetings_ = 0;
  std::atomic<bool> given_up_ = false;
};

}  // namespace trireme::comm
