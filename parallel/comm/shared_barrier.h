#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

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
  // Bytes of shared memory per rank.
  static constexpr std::size_t kBytes = 128;

  // `pages` is the zeroed shared memory of the group's ranks.
  SharedBarrier(std::unique_ptr<SharedMemory> pages, int rank);

  // Publishes `call` for the next meet(); it replaces the previous one.
  void show(const Call& call);
  // The call that `rank` published before the last meet().
  const Call& shown_by(int rank) const;
  // Returns when all ranks have called it. Throws PeerError after give_up().
  void meet();
  // Ends current and later waits of this rank. Thread-safe.
  void give_up() { given_up_.store(true, std::memory_order_release); }

 private:
  struct Page;
  Page& page_of(int rank) const;
  void wait_for(Page& page);

  std::unique_ptr<SharedMemory> pages_;
  int rank_;
  std::uint32_t meetings_ = 0;
  std::atomic<bool> given_up_ = false;
};

}  // namespace trireme::comm
