#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "model/device/device.h"
#include "trainer/config/run_config.h"
#include "trainer/engine/memory_plan.h"

namespace trireme {

// A config change that takes less memory.
struct Saving {
  std::string change;  // "activation_checkpoint.mode = \"selective\""
  std::size_t bytes;   // of the plan with it
};

// Bytes of host memory that a rank takes for a snapshot of its state, at most.
std::size_t snapshot_bytes(const MemoryPlan& plan);

// Bytes of a GPU rank's copy of that state in pinned memory (HostState); 0 if it is offloaded, so
// there already.
std::size_t host_copy_bytes(const MemoryPlan& plan);

// Bytes that must be free on the rank's device (on the CPU with a snapshot), and on its GPU's host.
std::size_t needed_bytes(const RunConfig& config, const MemoryPlan& plan, Device device);
std::size_t needed_host_bytes(const RunConfig& config, const MemoryPlan& plan, Device device);

// At most three changes with which every rank fits into `available`, the fastest first. Each is
// planned. `buffers`: the communication buffers of a rank.
std::vector<Saving> savings(const RunConfig& config, std::size_t buffers, Device device,
                            std::size_t available);

// Throws EnvironmentError with those changes if `plan` (on the CPU with a snapshot) exceeds
// `available`.
void require_fit(const RunConfig& config, Device device, const MemoryPlan& plan,
                 std::size_t available);

// Throws EnvironmentError if offload, copies and snapshots exceed the `available` host memory of
// this rank, and ConfigError if a run on the CPU is to offload.
void require_host_memory(const RunConfig& config, Device device, const MemoryPlan& plan,
                         std::size_t available);

}  // namespace trireme
