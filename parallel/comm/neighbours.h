#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "parallel/comm/ledger.h"
#include "parallel/comm/meeting.h"
#include "parallel/comm/shared_memory.h"
#include "parallel/comm/world.h"

namespace trireme {

// The ranks of one host, with memory per rank that all of them map, and a barrier. All ranks make
// the same calls.
class Neighbours {
 public:
  // `memory` and `pages` (comm::Meeting::kBytes per rank) are zeroed shared memory of the host;
  // this rank is `rank` of the world and index `place` of the host. Waits for the other ranks. The
  // ledger outlives it.
  Neighbours(std::unique_ptr<SharedMemory> memory, std::unique_ptr<SharedMemory> pages, int place,
             int rank, Ledger& ledger);
  // During stack unwinding the group stays in the flight recorder, as in ~RecordedCommunicator.
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  // World ranks, by host index.
  const std::vector<int>& ranks() const { return ranks_; }
  std::size_t size() const { return ranks_.size(); }
  // Host index of this rank.
  std::size_t place() const { return place_; }
  // Memory of the rank at a host index; zeroed at first. Memory of other ranks is read-only.
  std::byte* memory_of(std::size_t place) const {
    return memory_->of(static_cast<int>(place)).data;
  }
  // Barrier: returns when all ranks have called it; earlier writes are then visible to all. A rank
  // that never arrives is waited for; the watchdog ends such waits.
  void meet();

 private:
  std::unique_ptr<SharedMemory> memory_;
  comm::Meeting meeting_;
  std::size_t place_;
  std::vector<int> ranks_;
  Ledger& ledger_;
  int group_;  // in the flight recorder
  int exceptions_;
};

// The ranks of this rank's host, with `bytes` of memory each. Null on all ranks of a host where
// World::share returns null. Collective over the world, which outlives it.
std::unique_ptr<Neighbours> neighbours_of(World& world, std::size_t bytes);

}  // namespace trireme
