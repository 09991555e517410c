#pragma once
#include <memory>
#include <string>

#include "checkpoint/store/saver.h"
#include "parallel/comm/shared_memory.h"
#include "parallel/comm/team.h"
#include "parallel/comm/world.h"
#include "trainer/config/loaded_config.h"
#include "trainer/engine/engine.h"
#include "trainer/engine/rank_groups.h"
#include "trainer/engine/step_plan.h"
#include "trainer/loop/evaluations.h"
#include "trainer/loop/flops_meter.h"
#include "trainer/loop/run_folder.h"
#include "trainer/loop/run_log.h"

namespace trireme {

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
  const Evaluations evaluations;
  const EngineSpec spec;
  const EnginePlan plan;
  FlopsMeter flops;
  RunFolder folder;
  Stream stream;
  std::unique_ptr<checkpoint::BackgroundWriter> writer;  // with checkpoint.async
  std::unique_ptr<SharedMemory> shared;  // of data-parallel ranks on one host, on the CPU
  Arenas arenas;
  Engine engine;
  RunLog log;
};

}  // namespace trireme
