#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/store/saver.h"
#include "parallel/comm/shared_memory.h"
#include "parallel/comm/team.h"
#include "parallel/comm/world.h"
#include "trainer/config/loaded_config.h"
#include "trainer/config/sequence_length.h"
#include "trainer/engine/engine.h"
#include "trainer/engine/rank_groups.h"
#include "trainer/engine/step_plan.h"
#include "trainer/loop/evaluations.h"
#include "trainer/loop/flops_meter.h"
#include "trainer/loop/run_folder.h"
#include "trainer/loop/run_log.h"

namespace trireme {

// What of a run depends on the length of its sequences.
struct RunStage {
  RunStage(const SequenceLength& of_samples, EngineSpec of_engine, std::int64_t total_steps)
      : length(of_samples), spec(std::move(of_engine)), evaluations(spec, total_steps) {}
  RunStage(const RunStage&) = delete;
  RunStage& operator=(const RunStage&) = delete;

  const SequenceLength length;
  const EngineSpec spec;
  const Evaluations evaluations;
  EnginePlan plan = {};  // of this rank
};

// What all components of a run use: its config, process groups, data, memory plan, folder, engine
// and log, set up in this order, so that what cannot run is refused before it takes memory.
// Collective.
struct RunContext {
  RunContext(LoadedConfig from, World& ranks, Device device, int cpu_threads);
  RunContext(const RunContext&) = delete;
  RunContext& operator=(const RunContext&) = delete;

  const RunConfig& config() const { return loaded.config; }
  bool leads() const { return team.leads(); }
  FlightRecorder& recorder() const { return world.recorder(); }

  // Of the current stage: the first, until enter_stage().
  const RunStage& stage() const { return *stage_; }
  Engine& engine() { return *engine_; }
  // Between steps: enters the stage of this sample, after `step` updates, with the bits of a
  // run that resumes there. Collective; false if that is the current stage.
  bool enter_stage(std::uint64_t sample, std::int64_t step);
  // The most device memory that a stage has taken so far.
  std::size_t memory_peak();

  // Keeps the flight recorder in the run folder from here on, where it survives the process.
  void keep_flight_recorder();

  const LoadedConfig loaded;
  World& world;
  const int threads;
  const std::int64_t total_steps;
  RankGroups groups;
  const Team team;
  const std::string data_verified;  // result of data.verify, to be logged; or empty
  data::SampleSource train_data;
  std::deque<RunStage> stages;  // ascending
  const MemoryPlan memory;      // for any of them
  FlopsMeter flops;
  RunFolder folder;
  Stream stream;
  std::unique_ptr<checkpoint::BackgroundWriter> writer;  // with checkpoint.async
  std::unique_ptr<SharedMemory> shared;  // of data-parallel ranks on one host, on the CPU
  Arenas arenas;
  RunLog log;

 private:
  const RunStage* stage_;
  std::optional<Engine> engine_;
  std::size_t peak_ = 0;
};

}  // namespace trireme
