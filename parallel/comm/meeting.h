#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "parallel/comm/shared_memories.h"

namespace trireme::comm {

// Where the ranks of a group on one host meet: through counters in memory they share, without
// a call to MPI. Who has to wait looks a short while and then sleeps until the last has come,
// since there may be more ranks than cores. One thread of a rank at a time.
class Meeting {
 public:
  // What a rank is about to do, for the others to compare and to find its tensor.
  struct Call {
    std::uint32_t what = 0;  // operation, reduction and type
    std::uint32_t unused = 0;
    std::int64_t count = 0;
    SharedMemories::Place place;
  };
  // What each rank of the group has to share for it, bytes.
  static constexpr std::size_t kBytes = 128;

  // `pages`, of the group's ranks, were never used before.
  Meeting(std::unique_ptr<SharedMemory> pages, int rank);

  // Shows `call` to those that meet next; what was shown before is no longer looked at.
  void show(const Call& call);
  // What `rank` has shown before the last meeting.
  const Call& shown_by(int rank) const;
  // Returns once all ranks have come. Throws PeerError after give_up().
  void meet();
  // From any thread: nobody of this rank waits any more.
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
