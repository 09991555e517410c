#pragma once
#include <string>
#include <vector>

#include "model/device/device.h"
#include "trainer/config/run_config.h"

namespace trireme {

// A config that takes less memory, on as many ranks and with the same steps.
struct Proposal {
  std::string change;  // "activation_checkpoint.mode = \"selective\" and ..."
  RunConfig config;
};

// From the cheapest in time to the dearest: single changes, then more and more of them together.
// None breaks a rule that `config` keeps.
std::vector<Proposal> proposals(const RunConfig& config, Device device);

}  // namespace trireme
