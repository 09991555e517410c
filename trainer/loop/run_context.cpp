#include "trainer/loop/run_context.h"

#include "model/ops/gemm.h"
#include "model/tensor/host_tensor.h"
#include "trainer/engine/data_feed.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/engine/fit.h"
#include "trainer/engine/step_plan.h"
#include "trainer/loop/data_checks.h"
#include "trainer/supervise/watchdog/recorder_folder.h"

namespace trireme {
namespace {

// Refuses on all ranks what does not fit on one.
EnginePlan plan_and_fit(const RunConfig& config, const EngineSpec& spec, const RankGroups& groups,
                        const Team& team, Device device, const World& world) {
  EnginePlan plan;
  team.together([&] {
    if (spec.precision == MatmulPrecision::kFloat8) ops::require_float8(device);
    plan = plan_engine(spec, groups, device);
    require_foretold(config, groups, device, plan.memory);
    const std::size_t available = available_memory(device, world.ranks_on_device());
    require_fit(config, device, plan.memory, available);
    require_host_memory(config, device, plan.memory, available_memory({}, world.local_size()));
  });
  return plan;
}

// Created before the engine's memory, which its process must not inherit.
std::unique_ptr<checkpoint::BackgroundWriter> make_writer(const RunConfig& config,
                                                          const EnginePlan& plan) {
  if (!config.checkpoint.async) return nullptr;
  // Address space costs nothing, and tensors are aligned to disk blocks.
  return std::make_unique<checkpoint::BackgroundWriter>(2 * snapshot_bytes(plan.memory) +
                                                        (std::size_t{1} << 30));
}

std::unique_ptr<SharedMemory> share_memory(World& world, const RankGroups& groups,
                                           const EnginePlan& plan, Device device) {
  if (groups.data->size() == 1 || device.is_cuda()) return nullptr;
  return world.share(Arenas::shared_bytes(plan.memory, groups.expert != nullptr));
}

// Under ZeRO-1 and 2, ranks of one host share one copy of the weights, unless they have different
// experts: each updates its shard once all have finished reading the old ones.
Arenas::Shared shared_weights(const World& world, const RankGroups& groups, std::int64_t zero,
                              const SharedMemory* shared) {
  if (shared == nullptr) return {};
  Arenas::Shared places{.own = shared->data(), .workspace = groups.expert != nullptr};
  const bool has_whole_weights = zero == 1 || zero == 2;
  if (groups.shard->size() == 1 || !groups.shard->is_async() || !has_whole_weights ||
      groups.expert) {
    return places;
  }
  double holder[] = {static_cast<double>(world.local_rank())};
  Stream stream;
  groups.shard->broadcast(stream, host_tensor(std::span(holder)), /*root=*/0);
  places.weights = shared->of(static_cast<int>(holder[0])).data;
  return places;
}

// All of this rank's shared memory but its own place for weights, if it uses another rank's.
Arenas::Shared in_huge_pages(const Arenas::Shared& places, const EnginePlan& plan,
                             SharedMemory* shared) {
  const bool borrows = places.weights != nullptr && places.weights != places.own;
  if (shared) shared->use_huge_pages(borrows ? Arena::rounded(plan.memory.weights) : 0);
  return places;
}

Console::Options console_options(const RunConfig& config) {
  Console::Options options;
  options.total_steps = total_steps(config);
  options.interval = config.metrics.log_freq;
  return options;
}

}  // namespace

RunContext::RunContext(LoadedConfig from, World& ranks, Device device, int cpu_threads)
    : loaded(std::move(from)),
      world(ranks),
      threads(cpu_threads),
      total_steps(trireme::total_steps(loaded.config)),
      groups(world, config().parallelism, config().model),
      team(*groups.all, &world),
      data_verified(config().data.verify ? verify_data(config(), team, world) : ""),
      train_data(open_training_data(config())),
      evaluations(config(), total_steps),
      spec(engine_spec(config())),
      plan(plan_and_fit(config(), spec, groups, team, device, world)),
      flops(plan, *groups.all, spec.compute, device),
      folder(config(), team),
      stream(device),
      writer(make_writer(config(), plan)),
      shared(share_memory(world, groups, plan, device)),
      arenas(plan.memory, device,
             in_huge_pages(shared_weights(world, groups, spec.parallelism.zero, shared.get()), plan,
                           shared.get())),
      engine(spec, groups, stream, arenas),
      log(team.leads(), console_options(config())) {}

void RunContext::keep_flight_recorder() {
  const std::filesystem::path recordings = folder.path / kRecorderFolder;
  try {
    team.led([&] { archive_recordings(recordings); });
    recorder().keep_in(recordings / flight_recorder_file_name(team.rank()));
  } catch (const Error& error) {
    log.note(say("warning: the flight recorder will not survive the processes: ", error.what()));
  }
}

}  // namespace trireme
