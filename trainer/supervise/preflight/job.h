#pragma once
#include <filesystem>
#include <functional>

#include "data/sequencer.h"
#include "trainer/config/loaded_config.h"
#include "trainer/engine/rank_groups.h"
#include "trainer/supervise/preflight/preflight.h"

namespace trireme::preflight {

// What a job's ranks are about to train on.
struct Job {
  const LoadedConfig& loaded;
  std::function<data::SampleSource(const RunConfig&)> open_data;
};

// `trireme doctor CONFIG` on all ranks of a job: every check, told line by line by rank 0, which
// also writes the report to `json` (empty: not). Joins the ranks and leaves them. Throws
// EnvironmentError, on all, that names the ranks at fault and their nodes.
ExitCode examine(const Job& job, const std::filesystem::path& json);

// Throws EnvironmentError on all ranks where one runs another program or has another config.
// Before anything else is done together.
void require_same_program(World& world, const LoadedConfig& loaded);

// The checks that take some tenths of a second all together, at a run's start.
void make_quick(Preflight& preflight, const RunConfig& config, const World& world,
                const RankGroups& groups, Device device);

}  // namespace trireme::preflight
