#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "tests/trainer/tools/plan/other_trainers.h"
#include "trainer/tools/plan/estimate.h"

namespace trireme::published {

// A run that somebody has published, and what the cost model says of it.
struct Run {
  int number = 0;  // in the file, from 0
  std::string source, model, note, recompute;
  std::string gpu;      // a listed device
  std::string reason;   // why it cannot be modelled; empty: it can
  bool fitted = false;  // else it tests
  Workload work;
  StepOps ops;          // of the program that ran
  double measured = 0;  // seconds of a step, from whatever was published
};

// All of a file that has the form of published_runs.json. Every second run of a GPU and number
// format, in the file's order, is for fitting, the others for testing; so is one that is alone.
std::vector<Run> read(const std::filesystem::path& path);

// The listed profile without our kernels' efficiencies: the H200's are theirs, so that it has those
// of the H100.
DeviceProfile profile_of(const std::string& gpu);
StepEstimate estimate(const Run& run, const DeviceProfile& device);
// Predicted over measured, less 1.
double error(const Run& run, const DeviceProfile& device);

double median(std::vector<double> values);
double percentile(std::vector<double> values, double share);

}  // namespace trireme::published
