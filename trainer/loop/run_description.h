#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"
#include "trainer/engine/step_plan.h"
#include "trainer/telemetry/console.h"
#include "trainer/telemetry/events_log.h"

namespace trireme {

// What a run is, beside its config and plan.
struct RunFacts {
  std::filesystem::path folder;
  Device device;            // of this rank
  int ranks_on_device = 1;  // this one and those it shares the device with
  int threads = 0;
  double matrix_peak = 0;      // FLOP/s of this rank
  double flops_per_step = 0;   // useful ones, of all ranks
  double bubble = 0;           // share of the pipeline's time that is predicted to be waited
  double bubble_overhead = 0;  // what that adds to the time without waiting
  std::vector<std::int64_t> layers_per_stage;
  std::string weights;  // their hash
  std::int64_t training_tokens = 0;
  std::int64_t samples_per_epoch = 0;
};

// The same for people, as rows of the banner, and for programs, as an event's details.
struct RunDescription {
  std::vector<Console::Row> rows;
  EventsLog::Details details;
};
RunDescription describe_run(const RunConfig& config, const EngineSpec& spec, const EnginePlan& plan,
                            const RankGroups& groups, const RunFacts& facts);

// The axes with more than one rank, as stored with a checkpoint.
nlohmann::json layout_of(const ParallelismConfig& layout);

}  // namespace trireme
