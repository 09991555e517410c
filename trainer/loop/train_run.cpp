#include "trainer/loop/train_run.h"

#include "model/base/file.h"
#include "model/tensor/host_tensor.h"
#include "trainer/config/effective.h"
#include "trainer/supervise/preflight/job.h"
#include "trainer/telemetry/clock.h"
#include "trainer/telemetry/process_memory.h"

namespace trireme {
namespace {

using flight::Phase;

// elastic.preflight: the short machine checks at the start of a run. Returns the details of the
// event "preflight"; null without checks. Throws EnvironmentError on all ranks, naming the failed
// ones, after writing the event.
EventsLog::Details preflight_at_start(const RunContext& run) {
  if (!run.config().elastic.preflight) return nullptr;
  const double start = seconds_now();
  preflight::Preflight checks(run.team, run.world.hosts());
  preflight::make_quick(checks, run.config(), run.world, run.groups, run.stream.device());
  EventsLog::Details details = checks.report();
  details["seconds"] = seconds_now() - start;
  // The run's own log is not open yet: opening it cuts what follows the step it resumes from.
  if (run.leads() && !checks.passed()) {
    EventsLog(run.config().job.dump_folder / "events.jsonl").record("preflight", 0, details);
  }
  checks.require_passed();
  return details;
}

}  // namespace

TrainRun::TrainRun(LoadedConfig loaded, World& world, Device device, int threads,
                   inject::ParameterInjections injections)
    : run_(std::move(loaded), world, device, threads),
      injections_(std::move(injections)),
      recovery_state_(run_.config().training),
      gemm_choices_(run_.folder.path, run_.team, run_.log),
      trace_(run_),
      memory_(run_.config(), world, *run_.groups.all, run_.folder.store, run_.log),
      resumption_(run_, memory_),
      replicas_(run_),
      checkpoints_(run_, recovery_state_, memory_, replicas_),
      reporter_(run_, recovery_state_, resumption_, trace_, gemm_choices_),
      recovery_(run_, recovery_state_, resumption_, checkpoints_, reporter_),
      stages_(run_, trace_),
      trainer_(run_, recovery_state_, trace_, injections_) {}

ExitCode TrainRun::run() {
  start();
  while (state_.step < run_.total_steps && status_.signal == 0) {
    stages_.before_step(state_);
    const StepOutcome outcome = trainer_.step(state_);
    recovery_.judge(outcome, state_);
    status_ = agree_on_status();
    reporter_.after_step(outcome, state_, status_);
    checkpoints_.after_step(state_, status_.is_writing);
  }
  if (state_.step == run_.total_steps) {
    commit_or_throw("the run is done");
    return end(ExitCode::kDone, "done");
  }
  const std::string signal = signal_name(status_.signal);
  commit_or_throw("stopped by " + signal);
  return end(ExitCode::kStopped, signal);
}

void TrainRun::start() {
  injections_.check(run_.engine().model().whole(), run_.engine().model().params(), run_.team);
  run_.keep_flight_recorder();
  const EventsLog::Details preflight = preflight_at_start(run_);
  gemm_choices_.load();
  run_.recorder().enter(Phase::kLoad);
  if (!run_.data_verified.empty()) run_.log.note(run_.data_verified);
  state_ = resumption_.begin(recovery_state_);
  run_.enter_stage(state_.position(), state_.step);
  run_.recorder().enter(Phase::kStart);
  checkpoints_.start(resumption_.from());
  reporter_.start_self_check(state_);
  if (state_.weights.empty()) {
    state_.weights = weights_hash_text(run_.engine(), *run_.groups.all);
  }
  reporter_.open_log(resumption_.from() ? "resume" : "start", state_);
  if (run_.leads()) replace_text(run_.folder.path / "config.toml", effective_toml(run_.loaded));
  run_.flops.measure_peak(run_.threads);
  reporter_.announce(state_, checkpoints_, injections_);
  if (!preflight.is_null()) run_.log.event("preflight", state_.step, preflight);
  checkpoints_.start_memory(state_.step);
  replicas_.start();
  trace_.start();
  status_ = agree_on_status();
  const bool has_rollback_target = checkpoints_.committed() >= 0;
  if (recovery_state_.guard.rolls_back() && !has_rollback_target) checkpoints_.commit(state_);
}

RunStatus TrainRun::agree_on_status() {
  const bool lost_lease = run_.leads() && !run_.folder.store.holds_lease();
  double most[] = {
      static_cast<double>(signals_.asked()),   gemm_choices_.changed() ? 1.0 : 0.0,
      static_cast<double>(run_.memory_peak()), static_cast<double>(process_memory().peak_bytes),
      checkpoints_.is_writing() ? 1.0 : 0.0,   lost_lease ? 1.0 : 0.0};
  Stream stream;
  run_.groups.all->all_reduce(stream, host_tensor(std::span(most)), Reduce::kMax);
  require_lease(most[5] != 0);
  return {.signal = static_cast<int>(most[0]),
          .gemm_choices_changed = most[1] != 0,
          .memory_peak_bytes = static_cast<std::uint64_t>(most[2]),
          .process_peak_bytes = static_cast<std::uint64_t>(most[3]),
          .is_writing = most[4] != 0};
}

// Before the step is logged, so that its lines do not mix with those of another run.
void TrainRun::require_lease(bool is_lost) const {
  if (!is_lost) return;
  throw on_all_ranks(CheckpointError(say(
      run_.folder.path.string(), ": this run has lost its lease at step ", state_.step,
      ": LEASE.json was removed, moved or belongs to another run now; nothing more is written; ",
      checkpoints_.newest_text())));
}

void TrainRun::commit_or_throw(const std::string& reason) {
  if (!checkpoints_.commit(state_)) checkpoints_.throw_uncommitted(reason, state_.step);
}

ExitCode TrainRun::end(ExitCode code, const std::string& reason) {
  run_.recorder().enter(Phase::kEnd);
  trace_.end(state_.step);
  checkpoints_.end(state_.step);
  reporter_.end(code, reason, state_.step);
  return code;
}

}  // namespace trireme
