#include "trainer/loop/run_reporter.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "model/base/human.h"
#include "model/stage/layer_config.h"
#include "trainer/config/notes.h"
#include "trainer/config/value_text.h"
#include "trainer/engine/computation.h"
#include "trainer/loop/run_description.h"
#include "trainer/telemetry/clock.h"

namespace trireme {
namespace {

using flight::Phase;

// A drawing of the schedule if it fits the console; else nothing.
std::string drawing(const Schedule& schedule, const Timeline& timeline) {
  constexpr int kColumnsPerUnit = 3, kMaxColumns = 70;
  const int columns = kColumnsPerUnit * static_cast<int>(timeline.makespan);
  if (schedule.ranks.size() < 2 || columns > kMaxColumns) return "";
  return draw(schedule, timeline, columns);
}

RunDescription describe(RunContext& run, const TrainState& state, const Timeline& timeline) {
  EnginePlan plan = run.stage().plan;
  plan.memory = run.memory;
  RunDescription description = describe_run(
      run.config(), run.stage().spec, plan, run.groups,
      {.folder = run.folder.path,
       .device = run.stream.device(),
       .ranks_on_device = run.world.ranks_on_device(),
       .threads = run.threads,
       .matrix_peak = run.flops.peak(),
       .flops_per_step = run.flops.useful_of_step(),
       .bubble = timeline.idle_fraction(),
       .bubble_overhead = timeline.overhead(),
       .layers_per_stage = plan.layers_per_stage,
       .weights = state.weights,
       .training_tokens = static_cast<std::int64_t>(run.train_data.total_tokens()),
       .samples_per_epoch = static_cast<std::int64_t>(run.train_data.samples_per_epoch())});
  auto& [rows, details] = description;
  details["incarnation"] = run.folder.incarnation;
  if (run.stream.on_cuda())
    rows.emplace_back("attention", attention_kernels(run.stage().spec, run.groups.tensor->size(),
                                                     run.stream.device()));
  if (run.config().job.cuda_graphs) {
    const std::string why = no_graph_because(run.stage().spec, run.groups, run.stream.device());
    rows.emplace_back("CUDA graphs", why.empty()
                                         ? "forward and backward of micro-batches are replayed"
                                         : "not used: " + why);
    details["cuda_graphs"] = why.empty();
  }
  if (run.folder.lease && !run.folder.lease->taken_from().empty()) {
    rows.emplace_back("lease", "taken over from " + run.folder.lease->taken_from());
  }
  return description;
}

void describe_snapshot(RunDescription& description, std::size_t bytes) {
  description.rows.emplace_back(
      "snapshot",
      fmt::format("{} of host memory, for asynchronous checkpoints", human_bytes(bytes)));
  description.details["snapshot_bytes"] = bytes;
}

void describe_upcycling(RunDescription& description, const RunConfig& config) {
  auto& [rows, details] = description;
  const std::int64_t layers = layers_with_experts(config.model);
  const std::int64_t experts = config.model.num_experts;
  const double noise = config.checkpoint.upcycle_noise;
  rows.emplace_back(
      "upcycled",
      fmt::format("{} layers x {} experts: each expert is a copy of its layer's MLP{}; the routers "
                  "are initialized",
                  layers, experts,
                  noise > 0 ? fmt::format(" with noise of {} initial standard deviations", noise)
                            : std::string()));
  details["upcycled_layers"] = layers;
  details["upcycled_experts"] = experts;
  details["upcycle_noise"] = noise;
}

void describe_origin(RunDescription& description, const Resumption& resumption,
                     const RunConfig& config) {
  auto& [rows, details] = description;
  if (const auto& from = resumption.from()) {
    const bool in_memory = from->manifest.in_memory();
    rows.emplace_back("resumes", fmt::format("{} (step {}{})", from->folder.string(), from->step,
                                             in_memory ? ", in memory" : ""));
    details["from"] = from->folder.string();
    details["in_memory"] = in_memory;
    details["load_seconds"] = from->seconds;
  }
  if (const auto& weights = resumption.weights_from()) {
    rows.emplace_back("weights of", fmt::format("{} (step {})", weights->from.folder.string(),
                                                weights->from.step));
    details["weights_from"] = weights->from.folder.string();
    if (weights->upcycled) describe_upcycling(description, config);
  }
}

void describe_compression(RunDescription& description, const GradientCompression& compression,
                          std::string_view name, bool resumes) {
  auto& [rows, details] = description;
  if (!compression.compresses()) return;
  const double ratio = compression.traffic().ratio();
  rows.emplace_back("compression",
                    fmt::format("{}: the gradient all-reduce over replicas sends {:.1f} times "
                                "fewer bytes",
                                name, ratio));
  details["compression"] = name;
  details["compression_ratio"] = ratio;
  if (!resumes || !compression.has_residuals()) return;
  rows.emplace_back("residuals", "zero: checkpoints do not store compression residuals");
  details["residuals"] = "zero";
}

ExpertLoad expert_load(const RouterStats::Result& routers, bool with_counts) {
  ExpertLoad load;
  for (const RouterStats::LayerLoad& one : routers.loads) {
    load.layers.push_back(one.layer);
    load.max_over_mean.push_back(one.max_over_mean);
    if (with_counts) load.counts.push_back(one.counts);
  }
  return load;
}

}  // namespace

void RunReporter::start_self_check(const TrainState& state) {
  if (state.step == run_.total_steps) return;
  self_check_.emplace(run_.team, run_.folder.path, state,
                      computation_of(run_.config(), run_.stream.device(), run_.threads),
                      resumption_.not_comparable(), run_.log);
}

void RunReporter::open_log(const char* why, const TrainState& state) {
  run_.log.open(run_.folder.path,
                {.why = why,
                 .incarnation = run_.folder.incarnation,
                 .after = state.step,
                 .weights = state.weights,
                 .skip = run_.config().data.skip,
                 .data = run_.train_data.fingerprint(),
                 .computation = computation_of(run_.config(), run_.stream.device(), run_.threads)},
                run_.config().metrics.enable_tensorboard);
}

void RunReporter::announce(const TrainState& state, const Checkpointer& checkpoints,
                           const inject::ParameterInjections& injections) {
  RunLog& log = run_.log;
  const bool resumes = resumption_.from().has_value();
  const Timeline timeline = predicted_timeline(run_.engine().schedule());
  RunDescription description = describe(run_, state, timeline);
  if (const auto bytes = checkpoints.snapshot_bytes()) describe_snapshot(description, *bytes);
  describe_origin(description, resumption_, run_.config());
  describe_compression(description, run_.engine().model().compression(),
                       std::string(name_of_value(run_.config().parallelism.compression.method)),
                       resumes);
  log.banner(resumes ? "trireme resumes" : "trireme starts", description.rows);
  if (const std::string text = drawing(run_.engine().schedule(), timeline); !text.empty()) {
    log.note("\n" + text);
  }
  log.event(resumes ? "resume" : "start", state.step, description.details);
  for (const std::string& note : config_notes(run_.config())) log.warn(state.step, note);
  for (const inject::ParameterTarget* target : injections.targets()) {
    log.warn(state.step, say(target->variable, ": ", target->text));
  }
  resumption_.report();
}

void RunReporter::after_step(const StepOutcome& outcome, const TrainState& state,
                             const RunStatus& status) {
  const double seconds = outcome.seconds + std::exchange(logging_seconds_, 0);
  if (!outcome.result.applied) return trace_.after_step(state.step);
  compare_first_step(outcome, status);
  StepMetrics metrics = metrics_of(outcome, state, status, seconds);
  trace_.after_step(state.step);
  run_.stage().evaluations.after_step({run_.engine(), run_.groups, run_.log}, metrics);
  run_.recorder().enter(Phase::kReport);
  if (status.gemm_choices_changed) gemm_choices_.share(state.step);
  const double start = seconds_now();
  run_.log.step(ledger_step(outcome, status), metrics);
  warn_of_busy_cores(outcome.step);
  logging_seconds_ = seconds_now() - start;
}

void RunReporter::end(ExitCode code, const std::string& reason, std::int64_t step) {
  RunLog& log = run_.log;
  log.event("stop", step, {{"reason", reason}, {"exit_code", static_cast<int>(code)}});
  log.sync();
  log.note(fmt::format("{} at step {} of {}",
                       code == ExitCode::kDone ? "done" : "stopped by " + reason, step,
                       run_.total_steps));
}

void RunReporter::compare_first_step(const StepOutcome& outcome, const RunStatus& status) {
  if (self_check_ && resumption_.from()) {
    self_check_->compare({.step = outcome.step,
                          .taken = {.loss = outcome.result.loss,
                                    .grad_norm = outcome.result.grad_norm,
                                    .skips = recovery_.guard.skips(),
                                    .rollbacks = recovery_.guard.rollbacks()},
                          .products_chosen = status.gemm_choices_changed,
                          .norm_compares = !run_.engine().model().compression().has_residuals()},
                         run_.config().training.dtype, run_.log);
  }
  self_check_.reset();
}

StepMetrics RunReporter::metrics_of(const StepOutcome& outcome, const TrainState& state,
                                    const RunStatus& status, double seconds) {
  const TrainingConfig& training = run_.config().training;
  const double fraction =
      static_cast<double>(outcome.sequences) / static_cast<double>(training.global_batch_size);
  const auto [mfu, hfu] = run_.flops.utilization(seconds, fraction);
  const auto tokens = static_cast<double>(outcome.tokens);
  StepMetrics metrics{.step = outcome.step,
                      .tokens = state.tokens,
                      .loss = outcome.result.loss,
                      .grad_norm = outcome.result.grad_norm,
                      .lr = outcome.lr,
                      .step_seconds = seconds,
                      .tokens_per_second = tokens / seconds,
                      .mfu = mfu,
                      .hfu = hfu,
                      .memory_peak_bytes = status.memory_peak_bytes,
                      .process_peak_bytes = status.process_peak_bytes,
                      .validation_loss = {},
                      .validation_bits_per_byte = {},
                      .more = {}};
  const auto add = [&](const char* name, double value) { metrics.more.emplace_back(name, value); };
  if (!training.rampup_batch_size.empty()) {
    add("sequences", static_cast<double>(outcome.sequences));
  }
  const auto& [bubble, hidden] = outcome.traced;
  // value_or: g++ 12 warns that *bubble may be uninitialized.
  if (bubble) add("bubble", bubble.value_or(0));
  if (hidden) add("hidden_communication", hidden.value_or(0));
  if (const auto& routers = outcome.result.routers) {
    add("router_balance_loss", routers->balance_loss);
    add("router_z_loss", routers->z_loss);
    add("router_entropy", routers->entropy);
    add("expert_load_max_over_mean", routers->max_over_mean());
    if (run_.groups.expert) add("expert_rounds", static_cast<double>(routers->rounds));
    metrics.expert_load =
        expert_load(*routers, outcome.step % run_.config().metrics.log_freq == 0 ||
                                  outcome.step == run_.total_steps);
  }
  if (const auto balance = run_.engine().context_balance()) {
    add("context_pairs_max_over_mean", balance.value_or(1));
  }
  if (recovery_.scaler.scales()) {
    add("loss_scale", outcome.loss_scale);
    add("overflows", static_cast<double>(recovery_.scaler.overflows()));
  }
  const StepGuard& guard = recovery_.guard;
  if (guard.skips() > 0) add("skips", static_cast<double>(guard.skips()));
  if (guard.rollbacks() > 0) add("rollbacks", static_cast<double>(guard.rollbacks()));
  return metrics;
}

LedgerStep RunReporter::ledger_step(const StepOutcome& outcome, const RunStatus& status) const {
  return {.step = outcome.step,
          .incarnation = run_.folder.incarnation,
          .samples = outcome.samples,
          .left_out = outcome.left_out,
          .sequences = outcome.sequences,
          .tokens = outcome.tokens,
          .hash = outcome.hash,
          .loss = outcome.result.loss,
          .grad_norm = outcome.result.grad_norm,
          .lr = outcome.lr,
          .attempts = outcome.attempt,
          .products_chosen = status.gemm_choices_changed};
}

void RunReporter::warn_of_busy_cores(std::int64_t step) {
  if (!run_.leads() || run_.stream.on_cuda() || step % run_.config().metrics.log_freq != 0) return;
  const auto fraction = core_wait_.look(seconds_now(), seconds_without_core());
  if (!fraction) return;
  run_.log.warn(
      step,
      say("other processes use this run's cores: its threads waited ", std::lround(100 * *fraction),
          " % of the last seconds for one; stop them, or ",
          run_.threads > 1 ? "set job.threads to the number of free cores" : "start fewer ranks"));
}

}  // namespace trireme
