#pragma once
#include <optional>
#include <string>
#include <vector>

#include "trainer/tools/plan/device_profile.h"
#include "trainer/tools/plan/estimate.h"
#include "trainer/tools/plan/layout_plan.h"
#include "trainer/tools/plan/state_theory.h"

namespace trireme {

// What the config does not say.
struct PlanWishes {
  double price = 0;         // of a device for an hour; 0: unknown
  double mtbf_hours = 0;    // between failures of the whole run; 0: unknown
  double save_seconds = 0;  // that a save stops training for; 0: as measured, or assumed
  double restart_seconds = 300;
};

// What one rank sends along one axis in a step: bytes as counted where the step would send them,
// seconds as the cost model has them.
struct AxisPlan {
  std::string axis;  // "tensor", "pipeline", "data", "norms"
  double bytes = 0;
  std::optional<double> seconds, hidden;
};

// How often to save, and why.
struct SavePlan {
  double save = 0;               // seconds that training stands
  const char* from = "assumed";  // or given, or measured
  double young = 0, daly = 0;    // seconds between saves
  std::int64_t steps = 0;        // Daly's
  double lost = 0;               // share of the time, with those
};

// All that is known of a run before it.
struct RunPlan {
  RunConfig config;
  DeviceProfile device;
  double available = 0;  // bytes of the device that a rank may take
  ModelPlan model;
  LayoutPlan layout;
  StateTheory theory;
  StepEstimate estimate;
  std::vector<AxisPlan> traffic;
  double bubble_equal = 0, overhead_equal = 0;  // were all stages equal
  double useful_flops = 0;                      // of a step
  double tokens_per_second = 0, mfu = 0;
  double tokens = 0, seconds = 0;  // of the whole run
  double device_hours = 0, cost = 0;
  std::optional<SavePlan> saving;

  double ranks() const { return static_cast<double>(world_size(config.parallelism)); }
  bool fits() const { return static_cast<double>(layout.most_device_bytes()) <= available; }
};

// `config` is for_ranks. On the device of `profile`, or, where `device` is the CPU, on this
// machine's processors, whose memory the ranks share.
RunPlan plan_run(const RunConfig& config, const DeviceProfile& profile, Device device,
                 const PlanWishes& wishes);

// Bytes of a device that a run may take: what the driver and the libraries keep is left out.
double usable_bytes(const DeviceProfile& profile, Device device, std::int64_t ranks);

}  // namespace trireme
