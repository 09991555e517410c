#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "parallel/pipeline/simulate.h"
#include "trainer/config/run_config.h"
#include "trainer/engine/step_plan.h"
#include "trainer/telemetry/console.h"
#include "trainer/telemetry/events_log.h"

namespace trireme {

// Facts about a run other than its config and plan.
struct RunFacts {
  std::filesystem::path folder;
  Device device;            // of this rank
  int ranks_on_device = 1;  // that share it, this rank included
  int threads = 0;
  double matrix_peak = 0;      // FLOP/s of this rank
  double flops_per_step = 0;   // useful ones, of all ranks
  double bubble = 0;           // predicted idle fraction of the pipeline's time
  double bubble_overhead = 0;  // idle time relative to busy time
  std::vector<std::int64_t> layers_per_stage;
  std::string weights;  // their hash
  std::int64_t training_tokens = 0;
  std::int64_t samples_per_epoch = 0;
};

// As rows of the banner, and as an event's details.
struct RunDescription {
  std::vector<Console::Row> rows;
  EventsLog::Details details;
};
RunDescription describe_run(const RunConfig& config, const EngineSpec& spec, const EnginePlan& plan,
                            const RankGroups& groups, const RunFacts& facts);

// The schedule's timeline with equal stages.
Timeline predicted_timeline(const Schedule& schedule);

// The layout as stored with a checkpoint.
nlohmann::json layout_of(const ParallelismConfig& layout);

}  // namespace trireme
