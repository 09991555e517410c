#pragma once
#include <filesystem>
#include <functional>

#include "data/sequencer.h"
#include "trainer/config/loaded_config.h"
#include "trainer/engine/rank_groups.h"
#include "trainer/supervise/preflight/preflight.h"

namespace trireme::preflight {

// The config and the data of a job.
struct Job {
  const LoadedConfig& loaded;
  std::function<data::SampleSource(const RunConfig&)> open_data;
};

// `trireme doctor CONFIG` on all ranks of a job: runs every check, printed line by line by rank 0,
// which also writes the report to `json` unless it is empty. Initializes and finalizes the world.
// Throws EnvironmentError on all ranks, naming the ranks and nodes at fault.
ExitCode examine(const Job& job, const std::filesystem::path& json);

// Throws EnvironmentError on all ranks if a rank runs a different binary or has a different config.
// To be called before any other collective work.
void require_same_program(World& world, const LoadedConfig& loaded);

// The fast checks at the start of a run, some tenths of a second together.
void make_quick(Preflight& preflight, const RunConfig& config, const World& world,
                const RankGroups& groups, Device device);

}  // namespace trireme::preflight
