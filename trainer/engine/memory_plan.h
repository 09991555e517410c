#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "model/tensor/arena.h"

namespace trireme {

// Bytes of device memory that a rank takes, by class.
struct MemoryPlan {
  std::size_t weights = 0;  // in the compute dtype, with constant tables
  std::size_t masters = 0;  // float32 copies that the optimizer updates
  std::size_t gradients = 0;
  std::size_t optimizer = 0;      // moments
  std::size_t window = 0;         // of one block on the device, with activation offload
  std::size_t in_window = 0;      // blocks on the device, with activation offload
  std::size_t workspace = 0;      // temporaries, logits, norms
  std::size_t data = 0;           // token ids, targets, positions of a step
  std::size_t communication = 0;  // staging of messages
  std::size_t buffers = 0;        // of the communicators
  std::size_t products = 0;       // workspace of the matmul library

  // Saved activations of the micro-batches in flight, in slots of a few sizes (SlotPools).
  struct Pool {
    std::size_t slots = 0;
    std::size_t activations = 0;  // of one slot
    std::size_t on_host = 0;      // of one slot, in pinned host memory
    bool operator==(const Pool&) const = default;
  };
  std::vector<Pool> in_flight = {};

  // Pinned host memory of what is offloaded.
  struct Host {
    std::size_t masters = 0;
    std::size_t optimizer = 0;
    bool operator==(const Host&) const = default;
  };
  Host host = {};

  std::size_t activations() const;  // of all micro-batches in flight
  std::size_t slots() const;
  std::size_t total() const;
  std::size_t host_total() const;
  bool operator==(const MemoryPlan&) const = default;
  // ("weights", bytes), ... of the device, in the order above. Activations include the window,
  // workspace includes products, communication includes buffers.
  std::array<std::pair<const char*, std::size_t>, 8> classes() const;
};

// What serves both: the larger of each class.
MemoryPlan larger_of(const MemoryPlan& a, const MemoryPlan& b);

// "weights 100 planned, 120 used; ...": the classes in which two plans differ.
std::string differences(const MemoryPlan& planned, const MemoryPlan& used);

// All memory of a rank. Unbounded arenas belong to a planning stream and record what a step
// takes; sized arenas have exactly that.
struct Arenas {
  // What is offloaded to pinned host memory.
  struct Offload {
    bool optimizer = false;     // masters and optimizer state
    std::size_t in_window = 0;  // blocks whose activations stay on the device; 0: all
  };
  // `slots`: of each pool.
  static Arenas unbounded(Device device, std::vector<int> slots, const Offload& offload);
  // Shared memory in which data ranks of one host read each other's weights, gradients and
  // messages, and with `workspace` the rows of tokens for their experts; it outlives the arenas.
  struct Shared {
    std::byte* own = nullptr;      // of shared_bytes(plan, workspace); null: none
    std::byte* weights = nullptr;  // another rank's, if one copy serves several ranks
    bool workspace = false;
  };
  Arenas(const MemoryPlan& plan, Device device, const Shared& shared);
  Arenas(const MemoryPlan& plan, Device device) : Arenas(plan, device, Shared{}) {}
  static std::size_t shared_bytes(const MemoryPlan& plan, bool workspace);

  Arena weights, masters, gradients, optimizer, workspace, data, communication;
  std::vector<int> slots;               // of each pool
  std::deque<Arena> activations;        // one for each slot, pool by pool
  std::deque<Arena> window, offloaded;  // one for each block; on the host, one for each slot
  std::size_t buffers = 0;
  std::size_t products = 0;
  bool weights_in_common = false;  // one copy serves all ranks of the shard group

  // The peak of each arena so far.
  MemoryPlan peaks() const;

  // Empties all arenas for an engine of another sequence length; peaks count from here. Weights,
  // masters and optimizer state keep their contents, which it finds at the same places; gradients,
  // workspace, data and messages are zero again.
  void restart(Stream& stream);

 private:
  explicit Arenas(Device device);
};

// Bytes that this process may still take: what the machine has available or its cgroup allows,
// whichever is less.
std::size_t available_host_memory();
// Bytes of a GPU of this size that libraries take after the plan was checked: modules of cuBLASLt
// and cuDNN, NCCL's connections, CUDA graphs, operands of the measured peak.
std::size_t device_reserve(std::size_t memory_bytes);
// Bytes of a device that each of the `ranks` sharing it may take: what is free, on a GPU without
// that reserve.
std::size_t available_memory(Device device, int ranks);

}  // namespace trireme
