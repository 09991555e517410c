#include "trainer/loop/run_context.h"

#include <algorithm>

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

std::deque<RunStage> open_stages(const RunConfig& config, std::int64_t total_steps) {
  std::deque<RunStage> stages;
  const std::vector<SequenceLength> lengths = sequence_lengths(config);
  std::vector<EngineSpec> specs = engine_specs(config);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    stages.emplace_back(lengths[i], std::move(specs[i]), total_steps);
  }
  return stages;
}

// Plans each stage; returns the memory for any of them. Refuses on all ranks what does not fit on
// one.
MemoryPlan plan_and_fit(const RunConfig& config, std::deque<RunStage>& stages,
                        const RankGroups& groups, const Team& team, Device device,
                        const World& world) {
  MemoryPlan memory;
  team.together([&] {
    for (RunStage& stage : stages) {
      if (stage.spec.precision == MatmulPrecision::kFloat8) ops::require_float8(device);
      stage.plan = plan_engine(stage.spec, groups, device);
      const bool is_first = &stage == &stages.front();
      memory = is_first ? stage.plan.memory : larger_of(memory, stage.plan.memory);
    }
    require_foretold(config, groups, device, memory);
    const std::size_t available = available_memory(device, world.ranks_on_device());
    require_fit(config, device, memory, available);
    require_host_memory(config, device, memory, available_memory({}, world.local_size()));
  });
  return memory;
}

// Created before the engine's memory, which its process must not inherit.
std::unique_ptr<checkpoint::BackgroundWriter> make_writer(const RunConfig& config,
                                                          const MemoryPlan& memory) {
  if (!config.checkpoint.async) return nullptr;
  // Address space costs nothing, and tensors are aligned to disk blocks.
  return std::make_unique<checkpoint::BackgroundWriter>(2 * snapshot_bytes(memory) +
                                                        (std::size_t{1} << 30));
}

std::unique_ptr<SharedMemory> share_memory(World& world, const RankGroups& groups,
                                           const MemoryPlan& memory, Device device) {
  if (groups.data->size() == 1 || device.is_cuda()) return nullptr;
  return world.share(Arenas::shared_bytes(memory, groups.expert != nullptr));
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
Arenas::Shared in_huge_pages(const Arenas::Shared& places, const MemoryPlan& memory,
                             SharedMemory* shared) {
  const bool borrows = places.weights != nullptr && places.weights != places.own;
  if (shared) shared->use_huge_pages(borrows ? Arena::rounded(memory.weights) : 0);
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
      stages(open_stages(config(), total_steps)),
      memory(plan_and_fit(config(), stages, groups, team, device, world)),
      flops(stages.front().plan, *groups.all, stages.front().spec.compute, device),
      folder(config(), team),
      stream(device),
      writer(make_writer(config(), memory)),
      shared(share_memory(world, groups, memory, device)),
      arenas(memory, device,
             in_huge_pages(shared_weights(world, groups, config().parallelism.zero, shared.get()),
                           memory, shared.get())),
      log(team.leads(), console_options(config())),
      stage_(&stages.front()),
      engine_(std::in_place, stage_->spec, groups, stream, arenas) {}

bool RunContext::enter_stage(std::uint64_t sample, std::int64_t step) {
  const auto later = std::find_if(stages.begin() + 1, stages.end(), [&](const RunStage& stage) {
    return stage.length.first_sample > sample;
  });
  const RunStage& entered = *(later - 1);
  if (&entered == stage_) return false;
  // Ranks read each other's weights, gradients and messages.
  const auto wait_for_all = [&] {
    stream.synchronize();
    team.together([] {});
  };
  engine().model().finish_publishing();
  wait_for_all();
  std::optional<HostState> host_state = engine().take_host_state();
  engine_.reset();
  memory_peak();
  arenas.restart(stream);
  wait_for_all();
  stage_ = &entered;
  engine_.emplace(stage_->spec, groups, stream, arenas);
  engine().give_host_state(std::move(host_state));
  wait_for_all();
  engine().model().publish_masters(stream, step);
  flops.follow(stage_->plan, *groups.all);
  return true;
}

std::size_t RunContext::memory_peak() {
  peak_ = std::max(peak_, arenas.peaks().total());
  return peak_;
}

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
