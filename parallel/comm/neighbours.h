#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "parallel/comm/ledger.h"
#include "parallel/comm/meeting.h"
#include "parallel/comm/shared_memory.h"
#include "parallel/comm/world.h"

namespace trireme {

// The ranks of one host with memory of each that all of them map, and a place to meet. All of
// them make the same calls.
class Neighbours {
 public:
  // `memory` and `pages`, these of comm::Meeting::kBytes, are the host's and were never used;
  // this rank, `rank` of the world, has place `place` in them. Meets the others. The ledger
  // outlives it.
  Neighbours(std::unique_ptr<SharedMemory> memory, std::unique_ptr<SharedMemory> pages, int place,
             int rank, Ledger& ledger);
  // Where an exception is on its way the ledger keeps the group, as RecordedCommunicator does.
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  // Counted in the world, by place.
  const std::vector<int>& ranks() const { return ranks_; }
  std::size_t size() const { return ranks_.size(); }
  // Of this rank among them.
  std::size_t place() const { return place_; }
  // Of the rank at a place; zero at first. What is not this rank's is only to be read.
  std::byte* memory_of(std::size_t place) const {
    return memory_->of(static_cast<int>(place)).data;
  }
  // Returns once all have come; what each wrote before is then seen by all. A rank that never
  // comes is waited for: ending such a wait is the watchdog's work.
  void meet();

 private:
  std::unique_ptr<SharedMemory> memory_;
  comm::Meeting meeting_;
  std::size_t place_;
  std::vector<int> ranks_;
  Ledger& ledger_;
  int group_;  // in the ledger
  int exceptions_;
};

// The ranks of this one's host, with `bytes` each; null for all of a host where World::share
// gives none. Collective over the world, which outlives it.
std::unique_ptr<Neighbours> neighbours_of(World& world, std::size_t bytes);

}  // namespace trireme
