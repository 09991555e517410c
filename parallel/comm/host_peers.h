#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "parallel/comm/flight_recorder.h"
#include "parallel/comm/shared_barrier.h"
#include "parallel/comm/shared_memory.h"
#include "parallel/comm/world.h"

namespace trireme {

// The ranks of one host, with memory per rank that all of them map, and a barrier. All ranks make
// the same calls.
class HostPeers {
 public:
  // `memory` and `pages` (comm::SharedBarrier::bytes per rank) are zeroed shared memory of the
  // host; this rank is `rank` of the world and index `place` of the host. Waits for the other
  // ranks. The flight recorder outlives it.
  HostPeers(std::unique_ptr<SharedMemory> memory, std::unique_ptr<SharedMemory> pages, int place,
            int rank, FlightRecorder& recorder);
  // During stack unwinding the group stays in the flight recorder, as in ~RecordedCommunicator.
  ~HostPeers();
  HostPeers(const HostPeers&) = delete;
  HostPeers& operator=(const HostPeers&) = delete;

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
  comm::SharedBarrier barrier_;
  std::size_t place_;
  std::vector<int> ranks_;
  FlightRecorder& recorder_;
  int group_;  // in the flight recorder
  int exceptions_;
};

// The ranks of this rank's host, with `bytes` of memory each. Null on all ranks of a host where
// World::share returns null. Collective over the world, which outlives it.
std::unique_ptr<HostPeers> host_peers_of(World& world, std::size_t bytes);

}  // namespace trireme
