#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/sequence_length.h"
#include "trainer/tools/plan/device/device_profile.h"
#include "trainer/tools/plan/estimate/estimate.h"
#include "trainer/tools/plan/estimate/plan_node.h"
#include "trainer/tools/plan/goodput/goodput_plan.h"
#include "trainer/tools/plan/layout_plan.h"
#include "trainer/tools/plan/scaling_laws.h"
#include "trainer/tools/plan/state_theory.h"

namespace trireme {

// Inputs of the plan that are not in the config.
struct PlanOptions {
  double price = 0;  // of a device-hour; 0: unknown
  FailureOptions failures = {};
  double inference_tokens = 0;  // of the model's lifetime, after training; 0: unknown
  double expert_imbalance = 1;  // Workload's
  bool explain = false;         // RunPlan::explanation
};

// Axes along which a rank sends; "norms": sums over all ranks; "host": offload.
inline constexpr std::array kTrafficAxes{"tensor", "context", "expert", "pipeline",
                                         "data",   "norms",   "host"};

// Communication of one rank along one axis per step: bytes counted by the planner, seconds
// estimated by the cost model.
struct AxisPlan {
  std::string axis;  // of kTrafficAxes
  double bytes = 0;
  std::optional<double> seconds, hidden;
};

// Rows of (token, choice) pairs that an expert parallel rank computes for a layer and micro-batch.
struct ExpertPlan {
  std::int64_t experts = 0, of = 0;        // of this rank, and of the layer
  std::int64_t rows = 0;                   // with even loads
  std::int64_t planned = 0;                // at once
  std::int64_t most = 0, most_rounds = 0;  // if every token chooses this rank's experts
  double imbalance = 1;                    // assumed for the step time
};

// By one scaling law: the dense model that has the run's predicted loss for the least FLOPs of
// training and inference together, and what the run's own takes.
struct InferencePlan {
  const char* source = "";
  TrainingBudget best;
  double least = 0, own = 0;  // FLOPs of training and inference
};

// The steps of one sequence length, of a run that changes it (data.stages).
struct LengthPlan {
  SequenceLength length;
  double seconds = 0;            // of a full step
  std::size_t device_bytes = 0;  // of the largest rank
};

// Where the time of a step and the memory of the largest rank go.
struct Explanation {
  PlanNode time, memory;
  int largest_place = 0;  // pipeline rank
};

// Prediction of a run: of its steps at the first sequence length, where it has several; memory is
// the most of all.
struct RunPlan {
  RunConfig config;
  DeviceProfile device;
  double available = 0;  // bytes of the device that a rank may use
  ModelPlan model;
  LayoutPlan layout;
  StateTheory theory;
  StepEstimate estimate;
  std::vector<AxisPlan> traffic;
  double bubble_equal = 0, overhead_equal = 0;  // with equal stages
  double useful_flops = 0;                      // per step
  double tokens_per_second = 0;
  // Useful FLOPs relative to mfu_peak: the vendor's dense peak in 16 bits, also for float8, as in
  // the metrics of a run; in float32 for float32.
  double mfu = 0, mfu_peak = 0;
  double tokens = 0, seconds = 0;     // of the whole run, without what failures take
  double elapsed = 0;                 // with saves and failures, if their rate is known
  double device_hours = 0, cost = 0;  // of `elapsed`
  std::optional<ExpertPlan> experts;  // of expert parallelism
  std::optional<GoodputPlan> goodput;
  std::vector<InferencePlan> inference;  // by kLossFits; empty: unknown tokens
  std::vector<LengthPlan> lengths;       // empty: one length
  std::optional<Explanation> explanation;

  // Parameters without embeddings and head, as Kaplan et al. count them.
  double parameters_of_blocks() const;
  double ranks() const { return static_cast<double>(world_size(config.parallelism)); }
  bool fits() const { return static_cast<double>(layout.most_device_bytes()) <= available; }
};

// The data-parallel degrees of `config` are set (for_ranks). Plans for the device of `profile`, or
// for the CPU of this machine, whose memory all ranks share. Throws ConfigError for an invalid
// layout.
RunPlan plan_run(const RunConfig& config, const DeviceProfile& profile, Device device,
                 const PlanOptions& options);

// Device memory that a run may use, without the reserve of the driver and the libraries.
double usable_bytes(const DeviceProfile& profile, Device device, std::int64_t ranks);

}  // namespace trireme
