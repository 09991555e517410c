#pragma once
#include <string>
#include <vector>

#include "model/device/device.h"
#include "trainer/config/run_config.h"

namespace trireme {

// A config that takes less memory with the same ranks and the same steps.
struct Proposal {
  std::string change;  // "activation_checkpoint.mode = \"selective\" and ..."
  RunConfig config;
};

// Fastest first: single changes, then combinations of more and more. None breaks a config rule that
// `config` satisfies.
std::vector<Proposal> proposals(const RunConfig& config, Device device);

}  // namespace trireme
