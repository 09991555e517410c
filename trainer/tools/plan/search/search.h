#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "model/device/device.h"
#include "trainer/config/loaded_config.h"
#include "trainer/tools/plan/device/device_profile.h"
#include "trainer/tools/plan/search/best_shapes.h"

namespace trireme {

// Numbers of rejected layouts by reason.
struct RejectedLayouts {
  std::int64_t not_valid = 0;  // violate a config rule
  std::int64_t too_large = 0;  // do not fit
  std::int64_t bounded = 0;    // lower bound of the step time above the best
  std::int64_t slower = 0;     // slower by prediction
  double least_missing = 0;    // bytes by which the closest layout exceeds the memory
  std::string violated;        // the rules that the first of the layouts not valid violates
};

struct SearchResult {
  std::vector<RankedLayout> best;  // of the fastest shapes the fastest layouts, the fastest first
  std::int64_t considered = 0;     // layouts
  std::int64_t shapes = 0;         // of these
  std::set<std::int64_t> data_ranks_left;  // numbers of data ranks that do not divide the batch
  RejectedLayouts rejected;
};

// Searches all layouts of `ranks` ranks along the tensor, pipeline, context and both data axes,
// with every ZeRO stage, expert parallel degree, number of virtual stages, micro-batch size and
// recomputation mode, for the kBestShapes fastest shapes (LayoutShape); other keys are those of
// `loaded`. Layouts whose lower bounds of time and
// memory allow it are checked by the config rules, planned by the trainer's memory planner and
// timed by the cost model.
SearchResult search_layouts(const LoadedConfig& loaded, int ranks, const DeviceProfile& profile,
                            Device device, double expert_imbalance = 1);

}  // namespace trireme
