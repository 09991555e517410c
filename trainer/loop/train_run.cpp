#include "trainer/loop/train_run.h"

#include <fmt/format.h>

#include "model/base/file.h"
#include "model/base/log.h"
#include "model/ops/gemm_cache.h"
#include "model/ops/gemm_choices.h"
#include "model/ops/gemm_float8.h"
#include "model/tensor/host_tensor.h"
#include "trainer/config/effective.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/engine/fit.h"
#include "trainer/engine/matrix_peak.h"
#include "trainer/engine/step_plan.h"
#include "trainer/loop/computation.h"
#include "trainer/loop/data_feed.h"
#include "trainer/loop/start_preflight.h"
#include "trainer/loop/trained_model.h"
#include "trainer/loop/verified_data.h"
#include "trainer/supervise/watchdog/recorder_folder.h"
#include "trainer/telemetry/process_memory.h"

namespace trireme {
namespace {

using ledger::Phase;

constexpr const char* kGemmChoices = "gemm_choices.json";

// What fits on one rank has to fit on all.
EnginePlan plan_and_fit(const RunConfig& config, const EngineSpec& spec, const RankGroups& groups,
                        const checkpoint::Team& team, Device device, const World& world) {
  EnginePlan plan;
  team.together([&] {
    if (spec.factors == Factors::kFloat8) ops::require_float8(device);
    plan = plan_engine(spec, groups, device);
    require_foretold(config, groups, device, plan.memory);
    const std::size_t available = available_memory(device, world.ranks_on_device());
    require_fit(config, device, plan.memory, available);
    require_host_memory(config, device, plan.memory, available_memory({}, world.local_size()));
    return std::string();
  });
  return plan;
}

Console::Options console_options(const RunConfig& config, std::int64_t total_steps) {
  Console::Options options;
  options.total_steps = total_steps;
  options.interval = config.metrics.log_freq;
  return options;
}

}  // namespace

TrainRun::TrainRun(LoadedConfig loaded, World& world, Device device, int threads,
                   std::optional<GradientDrill> drill, std::optional<WeightDrill> weight_drill)
    : loaded_(std::move(loaded)),
      world_(world),
      config_(loaded_.config),
      total_steps_(total_steps(config_)),
      threads_(threads),
      ledger_(world.ledger()),
      groups_(world, config_.parallelism, config_.model),
      team_(*groups_.all, &world),
      verified_(config_.data.verify ? verify_data(config_, team_, world_) : ""),
      train_data_(open_training_data(config_)),
      evaluations_(config_, total_steps_),
      spec_(engine_spec(config_)),
      plan_(plan_and_fit(config_, spec_, groups_, team_, device, world)),
      flops_(flops_of_all()),
      folder_(config_, team_),
      stream_(device),
      writer_(make_writer()),
      shared_(share_memory(world, device)),
      arenas_(plan_.memory, device, shared_places(world)),
      engine_(spec_, groups_, stream_, arenas_),
      guard_(config_.training),
      scaler_(config_.training),
      drill_(std::move(drill)),
      weight_drill_(std::move(weight_drill)),
      log_(team_.leads(), console_options(config_, total_steps_)),
      memory_(config_, world_, *groups_.all, folder_.store, log_),
      resumption_({config_, folder_, memory_, engine_, *groups_.all, train_data_}) {}

ExitCode TrainRun::run() {
  check_drills();
  keep_ledger();
  const EventsLog::Details preflight =
      preflight_at_start(config_, world_, groups_, stream_.device());
  tokenizer_hash_ = tokenizer_hash_of(config_);
  use_gemm_choices();
  ledger_.enter(Phase::kLoad);
  if (!verified_.empty()) log_.note(verified_);
  progress_ = resumption_.begin(guard_, scaler_);
  if (const auto& from = resumption_.from()) {
    committed_ = from->manifest.in_memory() ? from->manifest.parent.value_or(-1) : from->step;
  }
  ledger_.enter(Phase::kStart);
  prepare_saves();
  if (progress_.step < total_steps_) {
    self_check_.emplace(team_, folder_.path, progress_,
                        computation_of(config_, stream_.device(), threads_),
                        resumption_.not_comparable(), log_);
  }
  if (progress_.weights.empty()) progress_.weights = weights_hash_text(engine_, *groups_.all);
  log_.open(folder_.path, ledger_begin(resumption_.from() ? "resume" : "start"),
            config_.metrics.enable_tensorboard);
  if (team_.leads()) replace_text(folder_.path / "config.toml", effective_toml(loaded_));
  matrix_peak_ =
      best_matrix_peak(spec_.compute, stream_.device(), threads_, ops::GemmCache::user_folder());
  announce();
  if (!preflight.is_null()) log_.event("preflight", progress_.step, preflight);
  memory_.start(state_pieces(engine_), progress_.step);
  prepare_replica_check();
  if (config_.metrics.trace) {
    trace_.emplace(folder_.path, groups_, config_.metrics.trace_steps);
    engine_.observe(&*trace_);
    world_.observe(&*trace_);
  }
  agree();
  if (guard_.rolls_back() && committed_ < 0) commit();  // something to go back to
  while (progress_.step < total_steps_) {
    if (const int signal = agreed_.signal) {
      if (committed_ != progress_.step && !commit()) {
        throw_uncommitted(say("stopped by ", signal_name(signal)));
      }
      return finish(ExitCode::kStopped, signal_name(signal));
    }
    step();
    const std::int64_t check = config_.elastic.replica_check_interval;
    if (check > 0 && progress_.step % check == 0) require_equal_replicas();
    const std::int64_t interval = config_.checkpoint.interval;
    const bool due = interval > 0 && progress_.step % interval == 0 && progress_.step > 0;
    follow_save();
    if (due && committed_ != progress_.step && progress_.step < total_steps_) save();
    if (progress_.step < total_steps_) save_to_memory();
  }
  if (committed_ != progress_.step && !commit()) throw_uncommitted("the run is done");
  return finish(ExitCode::kDone, "done");
}

TrainRun::StepFlops TrainRun::flops_of_all() const {
  double both[] = {plan_.useful.matmul + plan_.useful.attention_causal,
                   plan_.issued.matmul + plan_.issued.attention_causal};
  Stream stream;
  groups_.all->all_reduce(stream, host_tensor(std::span(both)), Reduce::kSum);
  return {both[0], both[1]};
}

std::unique_ptr<SharedMemory> TrainRun::share_memory(World& world, Device device) const {
  if (groups_.data->size() == 1 || device.is_cuda()) return nullptr;
  return world.share(Arenas::shared_bytes(plan_.memory));
}

// Ranks that divide the state hold its weights but once, where they can: each updates its own
// part of them when all are done with the old ones.
Arenas::Shared TrainRun::shared_places(const World& world) const {
  if (!shared_) return {};
  Arenas::Shared places{.own = shared_->data()};
  const bool all_hold_all = spec_.zero == 1 || spec_.zero == 2;
  if (groups_.shard->size() == 1 || !groups_.shard->works_beside() || !all_hold_all) return places;
  double holder[] = {static_cast<double>(world.local_rank())};
  Stream stream;
  groups_.shard->broadcast(stream, host_tensor(std::span(holder)), /*root=*/0);
  places.weights = shared_->of(static_cast<int>(holder[0])).data;
  return places;
}

// From here on it outlives the process.
void TrainRun::keep_ledger() {
  const std::filesystem::path recorder = folder_.path / kRecorderFolder;
  try {
    team_.led([&] {
      put_old_ledgers_aside(recorder);
      return std::string();
    });
    ledger_.keep_in(recorder / ledger_file_name(team_.rank()));
  } catch (const Error& error) {
    log_.note(say("warning: what the ranks do will not outlive them: ", error.what()));
  }
}

void TrainRun::agree() {
  const std::string chosen = ops::gemm_choices();
  double most[] = {static_cast<double>(signals_.asked()),
                   chosen == gemm_choices_ && gemm_choices_kept_ ? 0.0 : 1.0,
                   static_cast<double>(arenas_.peaks().total()),
                   static_cast<double>(process_memory().peak_bytes),
                   saver_ && saver_->waits() ? 1.0 : 0.0,
                   team_.leads() && !folder_.store.holds_lease() ? 1.0 : 0.0};
  Stream stream;
  groups_.all->all_reduce(stream, host_tensor(std::span(most)), Reduce::kMax);
  agreed_ = {.signal = static_cast<int>(most[0]),
             .chose_gemms = most[1] != 0,
             .memory_peak_bytes = static_cast<std::uint64_t>(most[2]),
             .process_peak_bytes = static_cast<std::uint64_t>(most[3]),
             .saving = most[4] != 0};
  if (most[5] == 0) return;
  // Before anything of the step is told: what another run writes here now is not to be mixed with.
  throw on_all_ranks(CheckpointError(say(
      folder_.path.string(), ": this run has lost its lease at step ", progress_.step,
      ": LEASE.json was removed, moved or belongs to another run now; nothing more is written; ",
      committed_ < 0 ? std::string("there is no checkpoint")
                     : say("the newest checkpoint is that of step ", committed_))));
}

void TrainRun::use_gemm_choices() {
  const std::filesystem::path path = folder_.path / kGemmChoices;
  gemm_choices_ = team_.led([&]() -> std::string {
    if (!std::filesystem::exists(path)) return {};
    try {
      const std::string text = read_text(path);
      ops::merged_gemm_choices(std::span(&text, 1));  // throws where it is damaged
      return text;
    } catch (const Error& error) {
      // a cache: what it held is chosen anew, and the file is written over after the next step
      log_warning("{}: {}; measuring again, a resumed run may differ in the last bits",
                  path.string(), error.what());
      return {};
    }
  });
  if (!gemm_choices_.empty()) ops::use_gemm_choices(gemm_choices_);
}

// A resumed run must multiply by the same libraries: they differ in the last bits. The
// ranks of one run agree on them too, so that no layout has bits of its own.
void TrainRun::share_gemm_choices() {
  const std::string text =
      ops::merged_gemm_choices(team_.together([] { return ops::gemm_choices(); }));
  ops::use_gemm_choices(text);
  try {
    if (team_.leads()) replace_text(folder_.path / kGemmChoices, text);
    gemm_choices_kept_ = true;
  } catch (const Error& error) {
    // told once; tried again after the next step
    if (gemm_choices_kept_) {
      log_.warn(progress_.step, say("a resumed run may differ in the last bits: ", error.what()));
    }
    gemm_choices_kept_ = false;
  }
  gemm_choices_ = text;
}

void TrainRun::check_drills() {
  const auto check = [&](const auto& drill) {
    if (!drill) return;
    std::string remark;
    team_.together([&] {
      remark = drill->target().check(engine_.model().whole(), engine_.params(), team_.rank(),
                                     team_.size());
      return std::string();
    });
    if (!remark.empty() && team_.leads()) log_warning("{}", remark);
  };
  check(drill_);
  check(weight_drill_);
}

ExitCode TrainRun::finish(ExitCode code, const std::string& reason) {
  ledger_.enter(Phase::kEnd);
  if (trace_) end_trace();
  end_replica_check();
  memory_.end(progress_.step);
  log_.event("stop", progress_.step, {{"reason", reason}, {"exit_code", static_cast<int>(code)}});
  log_.sync();
  log_.note(fmt::format("{} at step {} of {}",
                        code == ExitCode::kDone ? "done" : "stopped by " + reason, progress_.step,
                        total_steps_));
  return code;
}

}  // namespace trireme
