#pragma once
#include <string>

#include "trainer/config/run_config.h"
#include "trainer/tools/plan/device/links.h"
#include "trainer/tools/plan/goodput/goodput_model.h"

namespace trireme {

inline constexpr double kSecondsPerYear = 365.25 * 86400;

// What a user knows of failures; 0: unknown.
struct FailureOptions {
  double mtbf_hours = 0;         // mean time between failures of the whole run
  double per_device_year = 0;    // failures of a device in 365.25 days
  double save_seconds = 0;       // that a checkpoint blocks training
  double restart_seconds = 0;    // from detection to the first new step
  double repair_hours = 0;       // until a lost node is back; 0: a spare is there at once
  double storage_gigabytes = 0;  // GB/s of the file system, for all ranks together
  bool are_known() const { return mtbf_hours > 0 || per_device_year > 0; }
  bool operator==(const FailureOptions&) const = default;
};

// The rate that Llama 3's authors published (failures.json).
double published_failures_per_device_year();

// The parts of a run that its saves and restarts depend on.
struct SavedRun {
  const RunConfig& config;
  const Network& network;
  double step_seconds = 0;
  double state_bytes = 0;       // of the largest rank
  double checkpoint_bytes = 0;  // of all ranks, each replicated value once
};

struct FailureCosts {
  FailureModel model;
  std::string saves_are, restarts_are;  // where their seconds come from
};

// Failures by the options, timeouts by the config, saves and restarts by the options, otherwise as
// measured in the run folder, otherwise by bandwidths and failures.json. Throws ConfigError
// where a failure would never be detected.
FailureCosts failure_costs(const SavedRun& run, const FailureOptions& options);

}  // namespace trireme
