#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/trainer/tools/plan/other_trainers.h"
#include "trainer/tools/plan/device/efficiencies.h"
#include "trainer/tools/plan/estimate/estimate.h"
#include "trainer/tools/plan/layout_plan.h"

namespace trireme::published {

// What is fitted: the planner's efficiencies, and what only other trainers' steps take.
struct Fitted : Efficiencies {
  double step_seconds = 0;   // of the host between steps, if it runs Python
  double slice_seconds = 0;  // of the host for each of Run::slices
};
const Fitted& fitted();

// A paper or repository. Its runs are fitted to or predicted together.
struct Source {
  std::string name;
  int draw = 0;           // in which it was drawn by lot (PUBLISHED.md); 0: in none
  bool is_later = false;  // added when all numbers were final
  bool is_unseen() const { return draw > 0 || is_later; }  // never fitted to
};
const std::vector<Source>& sources();
bool is_unseen(const std::string& source);

// A run that somebody has published, and what the cost model says of it.
struct Run {
  int number = 0;  // in the file, from 0
  std::string source, model, note, recompute;
  std::string group;            // Source::name
  std::string gpu;              // a listed device
  double gigabits_between = 0;  // per second and GPU between nodes; 0: the device's
  std::string reason;           // why it cannot be modelled; empty: it can
  bool is_python = true;
  double slices = 0;            // of parameters that the host copies one by one after the update
  bool waits_for_ends = false;  // TrainerTraits'
  NumberFormat narrow = NumberFormat::kFloat8;  // DeviceProfile's
  Workload work;
  StepOps ops;  // of the program that ran
  std::shared_ptr<const Simulation> schedule;
  double measured = 0;  // seconds of a step, from whatever was published
  double gib = 0;       // of a rank's memory; 0: not published
};

// All of a file that has the form of published_runs.json.
std::vector<Run> read(const std::filesystem::path& path);

// The config of this trainer for the same run. Its attention recomputes scores always.
RunConfig config_of(const Run& run);

// The listed profiles by name, without our kernels' efficiencies: the H200's are theirs, so that it
// has those of the H100.
using Profiles = std::map<std::string, DeviceProfile>;
Profiles profiles_of(const Fitted& fitted);

// Predicted seconds of a step.
StepEstimate estimate(const Run& run, const Profiles& profiles);
double seconds(const Run& run, const Fitted& fitted, const Profiles& profiles);

inline bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

double median(std::vector<double> values);
double percentile(std::vector<double> values, double share);

}  // namespace trireme::published
