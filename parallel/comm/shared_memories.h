#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "parallel/comm/shared_memory.h"

namespace trireme::comm {

// All shared memories of this host's ranks, in order of creation, which is the same on all ranks.
// Thread-safe.
class SharedMemories {
 public:
  // Location in a rank's own shared memory; valid on every rank of the host.
  struct Place {
    std::uint64_t memory = 0;
    std::uint64_t offset = 0;
  };

  // Appends a memory; null if the ranks could not share it.
  void add(SharedMemory* memory) {
    const std::lock_guard guard(mutex_);
    memories_.push_back(memory);
  }
  void remove(const SharedMemory* memory) {
    const std::lock_guard guard(mutex_);
    for (SharedMemory*& one : memories_) {
      if (one == memory) one = nullptr;
    }
  }

  // Location of [data, data + bytes); nullopt if it is not in shared memory.
  std::optional<Place> find(const std::byte* data, std::size_t bytes) const {
    const std::lock_guard guard(mutex_);
    for (std::size_t i = 0; i < memories_.size(); ++i) {
      const SharedMemory* const memory = memories_[i];
      if (!memory || data < memory->data() || data >= memory->data() + memory->bytes()) continue;
      const auto offset = static_cast<std::size_t>(data - memory->data());
      if (bytes <= memory->bytes() - offset) return Place{i, offset};
    }
    return std::nullopt;
  }

  // Pointer to this location in the memory of host rank `rank`; null if fewer than `bytes` are
  // there.
  std::byte* at(const Place& place, int rank, std::size_t bytes) const {
    const std::lock_guard guard(mutex_);
    if (place.memory >= memories_.size() || !memories_[place.memory]) return nullptr;
    const SharedMemory::Block& block = memories_[place.memory]->of(rank);
    if (place.offset > block.bytes || bytes > block.bytes - place.offset) return nullptr;
    return block.data + place.offset;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<SharedMemory*> memories_;
};

}  // namespace trireme::comm
