#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/device/device.h"
#include "trainer/config/loaded_config.h"
#include "trainer/tools/plan/device_profile.h"
#include "trainer/tools/plan/estimate.h"

namespace trireme {

// A layout of the run's ranks that the trainer runs and the device holds, with its predicted step.
struct Ranked {
  RunConfig config;
  StepEstimate estimate;
  double bytes = 0;  // of the fullest rank
};

// Why layouts are not among the best.
struct Left {
  std::int64_t not_valid = 0;  // a rule of the config forbids them
  std::int64_t too_large = 0;  // they do not fit
  std::int64_t bounded = 0;    // even without waiting they would be slower than the best
  std::int64_t slower = 0;     // predicted to be
  double least_missing = 0;    // bytes, of those that do not fit
};

struct SearchResult {
  std::vector<Ranked> best;  // the fastest first
  std::int64_t considered = 0;
  Left left;
};

// Tries every way to lay out `ranks` ranks along the tensor, pipeline and data axes, with every
// ZeRO stage, micro-batch and recomputation; all else stays as in `loaded`. Each is checked by the
// config's own rules, planned by the trainer's own planner and timed by the cost model.
SearchResult search_layouts(const LoadedConfig& loaded, int ranks, const DeviceProfile& profile,
                            Device device);

// The best with what each lacks against the first, and what became of the others.
std::string search_text(const SearchResult& result, double available);

}  // namespace trireme
