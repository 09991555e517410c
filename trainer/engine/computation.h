#pragma once
#include <map>
#include <string>

#include "model/device/device.h"
#include "trainer/config/run_config.h"

namespace trireme {

// What decides the bits of a step's loss and gradients: every config key that is neither
// bookkeeping nor part of the learning rate or the weights' average, as TOML, and the actual
// "device", "threads" and "program".
using Computation = std::map<std::string, std::string>;

Computation computation_of(const RunConfig& config, Device device, int threads);

// How two computations differ.
struct ComputationChange {
  bool same_step = true;  // false: the result differs, not only the order of sums
  bool same_bits = true;  // false: its last bits may differ
  std::string text;       // "parallelism.tensor: 1 -> 2, threads: 4 -> 8"
};
// With job.reproducible in both, data-parallel ranks, pipeline stages and ZeRO change no bits.
ComputationChange change_of(const Computation& before, const Computation& after);

}  // namespace trireme
