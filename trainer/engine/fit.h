#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "model/device/device.h"
#include "trainer/config/run_config.h"
#include "trainer/engine/memory_plan.h"

namespace trireme {

// A change of the config that makes the plan smaller.
struct Saving {
  std::string change;  // "activation_checkpoint.mode = \"selective\""
  std::size_t bytes;   // what the plan then takes
};

// Bytes of host memory a rank with this plan takes for snapshots of its state, at most.
std::size_t snapshot_bytes(const MemoryPlan& plan);

// What must be free where the rank computes: on the CPU with a snapshot; and of the host beside a
// device.
std::size_t needed_bytes(const RunConfig& config, const MemoryPlan& plan, Device device);
std::size_t needed_host_bytes(const RunConfig& config, const MemoryPlan& plan, Device device);

// The changes under which every rank fits into `available`, each planned anew, the cheapest in
// speed first, at most three. `buffers`: what the groups of a rank have taken for messages.
std::vector<Saving> savings(const RunConfig& config, std::size_t buffers, Device device,
                            std::size_t available);

// Throws EnvironmentError, with those changes, when `plan` (and on the CPU a snapshot beside
// it) exceeds `available`.
void require_fit(const RunConfig& config, Device device, const MemoryPlan& plan,
                 std::size_t available);

// Throws EnvironmentError when the host cannot give what a run on a device takes of it for
// what is offloaded and for snapshots, `available` bytes being this rank's share, and
// ConfigError when offloading is asked for on the CPU.
void require_host_memory(const RunConfig& config, Device device, const MemoryPlan& plan,
                         std::size_t available);

}  // namespace trireme
