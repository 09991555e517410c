#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "model/tensor/arena.h"

namespace trireme {

// Bytes of device memory a rank takes, class by class.
struct MemoryPlan {
  std::size_t weights = 0;  // in the compute dtype, and constant tables
  std::size_t masters = 0;  // float32 copies that the optimizer updates
  std::size_t gradients = 0;
  std::size_t optimizer = 0;      // moments
  std::size_t window = 0;         // of one of the blocks that are here, where others are offloaded
  std::size_t in_window = 0;      // such blocks
  std::size_t workspace = 0;      // temporaries, logits, norms
  std::size_t data = 0;           // token ids, targets, positions of a step
  std::size_t communication = 0;  // what is gathered before it is sent
  std::size_t buffers = 0;        // of the groups of ranks, for messages on their way
  std::size_t products = 0;       // what the matrix products' library takes for itself

  // What micro-batches in flight keep, which lies in slots of a few sizes (SlotPools).
  struct Pool {
    std::size_t slots = 0;
    std::size_t activations = 0;  // of one slot
    std::size_t on_host = 0;      // of one slot, in pinned memory
    bool operator==(const Pool&) const = default;
  };
  std::vector<Pool> in_flight = {};

  // Pinned memory of the host, for what is offloaded from a device.
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
  // ("weights", bytes), ... of the device in the order above, activations of all in flight with
  // the window; products are counted as workspace, buffers as communication.
  std::array<std::pair<const char*, std::size_t>, 8> classes() const;
};

// All the memory of a rank. Unbounded arenas belong to a planning stream and
// learn what a step takes; sized ones hold exactly that.
struct Arenas {
  // What goes to pinned memory of the host.
  struct Offload {
    bool optimizer = false;     // masters and the optimizer's state
    std::size_t in_window = 0;  // blocks whose activations stay on the device; 0: all do
  };
  // `slots`: of each pool.
  static Arenas unbounded(Device device, std::vector<int> slots, const Offload& offload);
  // Memory in which data ranks of one host see each other's weights, gradients and what is on
  // its way; it outlives the arenas.
  struct Shared {
    std::byte* own = nullptr;      // of shared_bytes(plan); null: there is none
    std::byte* weights = nullptr;  // another rank's, which holds the weights of both; or null
  };
  Arenas(const MemoryPlan& plan, Device device, const Shared& shared);
  Arenas(const MemoryPlan& plan, Device device) : Arenas(plan, device, Shared{}) {}
  static std::size_t shared_bytes(const MemoryPlan& plan);

  Arena weights, masters, gradients, optimizer, workspace, data, communication;
  std::vector<int> slots;               // of each pool
  std::deque<Arena> activations;        // a slot each, pool by pool
  std::deque<Arena> window, offloaded;  // a block each; of the host, a slot each
  std::size_t buffers = 0;
  std::size_t products = 0;
  bool weights_in_common = false;  // the ranks that divide the state have one copy of them

  // The most that each has held so far.
  MemoryPlan peaks() const;

 private:
  explicit Arenas(Device device);
};

// Bytes this process may still take: what the machine has available, or its
// control group allows, whichever is less.
std::size_t available_host_memory();
// Bytes of a device that each of the `ranks` which share it may take.
std::size_t available_memory(Device device, int ranks);

}  // namespace trireme
