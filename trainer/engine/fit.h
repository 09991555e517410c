#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "model/device/device.h"
#include "trainer/config/run_config.h"
#include "trainer/engine/rank_groups.h"

namespace trireme {

// A change of the config that makes the plan smaller.
struct Saving {
  std::string change;  // "activation_checkpoint.mode = \"selective\""
  std::size_t bytes;   // what the plan then takes
};

// The changes under which the plan fits into `available`, the cheapest in speed
// first, at most three.
std::vector<Saving> savings(const RunConfig& config, const RankGroups& groups, Device device,
                            std::size_t available);

// Throws EnvironmentError, with those changes, when `needed` exceeds `available`.
void require_fit(const RunConfig& config, const RankGroups& groups, Device device,
                 std::size_t needed, std::size_t available);

// Throws EnvironmentError when the host cannot give what is offloaded to it, `available` bytes
// being this rank's share, and ConfigError when that is asked for on the CPU.
void require_offload(const RunConfig& config, Device device, std::size_t needed,
                     std::size_t available);

}  // namespace trireme
