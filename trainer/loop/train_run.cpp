#include "trainer/loop/train_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/base/file.h"
#include "model/device/cpu/threads.h"
#include "model/ops/gemm_choices.h"
#include "model/ops/gemm_float8.h"
#include "model/tensor/host_tensor.h"
#include "trainer/config/effective.h"
#include "trainer/config/for_ranks.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/engine/fit.h"
#include "trainer/engine/matrix_peak.h"
#include "trainer/loop/run_description.h"
#include "trainer/loop/train.h"
#include "trainer/loop/trained_model.h"
#include "trainer/optimizer/lr_schedule.h"
#include "trainer/restart/run_rank.h"
#include "trainer/telemetry/clock.h"
#include "trainer/telemetry/human.h"
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
    const std::size_t available = available_memory(device, world.ranks_on_device());
    require_fit(config, groups, device, plan.memory, available);
    require_host_memory(config, device, plan.memory, available_memory({}, world.local_size()));
    return std::string();
  });
  return plan;
}

// With equal stages.
Timeline predicted_timeline(const Schedule& schedule) {
  return simulate(schedule, ActionCosts::unit(schedule.stages));
}

// A picture of the schedule where it is small enough to be read; else nothing.
std::string picture(const Schedule& schedule, const Timeline& timeline) {
  constexpr int kColumnsOfUnit = 3, kMostColumns = 100;
  const int columns = kColumnsOfUnit * static_cast<int>(timeline.makespan);
  if (schedule.ranks.size() < 2 || columns > kMostColumns) return "";
  return draw(schedule, timeline, columns);
}

Console::Options console_options(const RunConfig& config, std::int64_t total_steps) {
  Console::Options options;
  options.total_steps = total_steps;
  options.interval = config.metrics.log_freq;
  return options;
}

}  // namespace

TrainRun::TrainRun(LoadedConfig loaded, World& world, Device device, int threads,
                   std::optional<GradientDrill> drill)
    : loaded_(std::move(loaded)),
      world_(world),
      config_(loaded_.config),
      total_steps_(total_steps(config_)),
      threads_(threads),
      ledger_(world.ledger()),
      groups_(world, config_.parallelism, config_.model),
      team_(*groups_.all),
      train_data_(open_training_data(config_)),
      validation_data_(open_validation_data(config_)),
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
      log_(team_.leads(), console_options(config_, total_steps_)),
      memory_(config_, world_, *groups_.all, folder_.store, log_),
      resumption_({config_, folder_, memory_, engine_, *groups_.all, train_data_}) {}

ExitCode TrainRun::run() {
  check_drill();
  keep_ledger();
  tokenizer_hash_ = tokenizer_hash_of(config_);
  use_gemm_choices();
  ledger_.enter(Phase::kLoad);
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
  log_.open(folder_.path, progress_.step, config_.metrics.enable_tensorboard);
  if (team_.leads()) replace_text(folder_.path / "config.toml", effective_toml(loaded_));
  matrix_peak_ = measured_matrix_peak(spec_.compute, stream_.device());
  announce();
  memory_.start(state_pieces(engine_), progress_.step);
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
  const std::filesystem::path path =
      folder_.path / "flight-recorder" / ledger_file_name(team_.rank());
  try {
    make_folders(path.parent_path());
    ledger_.keep_in(path);
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
                   saver_ && saver_->waits() ? 1.0 : 0.0};
  Stream stream;
  groups_.all->all_reduce(stream, host_tensor(std::span(most)), Reduce::kMax);
  agreed_ = {.signal = static_cast<int>(most[0]),
             .chose_gemms = most[1] != 0,
             .memory_peak_bytes = static_cast<std::uint64_t>(most[2]),
             .process_peak_bytes = static_cast<std::uint64_t>(most[3]),
             .saving = most[4] != 0};
}

void TrainRun::use_gemm_choices() {
  const std::filesystem::path path = folder_.path / kGemmChoices;
  gemm_choices_ =
      team_.led([&] { return std::filesystem::exists(path) ? read_text(path) : std::string(); });
  if (gemm_choices_.empty()) return;
  ops::use_gemm_choices(gemm_choices_);
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

void TrainRun::check_drill() {
  if (!drill_) return;
  team_.together([&] {
    drill_->check(engine_.whole(), engine_.params(), team_.rank(), team_.size());
    return std::string();
  });
}

void TrainRun::announce() {
  const Timeline timeline = predicted_timeline(engine_.schedule());
  auto [rows, details] = describe_run(
      config_, spec_, plan_, groups_,
      {.folder = folder_.path,
       .device = stream_.device(),
       .ranks_on_device = world_.ranks_on_device(),
       .threads = threads_,
       .matrix_peak = matrix_peak_,
       .flops_per_step = flops_.useful,
       .bubble = timeline.idle_fraction(),
       .bubble_overhead = timeline.overhead(),
       .layers_per_stage = engine_.layers_per_stage(),
       .weights = weights_hash_text(engine_, *groups_.all),
       .training_tokens = static_cast<std::int64_t>(train_data_.total_tokens()),
       .samples_per_epoch = static_cast<std::int64_t>(train_data_.samples_per_epoch())});
  if (stream_.on_cuda()) rows.emplace_back("attention", engine_.attention_kernels());
  if (config_.job.cuda_graphs) {
    const std::string why = engine_.no_graph_because();
    rows.emplace_back("CUDA graphs",
                      why.empty() ? "forward and backward are replayed" : "not used: " + why);
    details["cuda_graphs"] = why.empty();
  }
  if (folder_.lease && !folder_.lease->taken_from().empty()) {
    rows.emplace_back("lease", "taken over from " + folder_.lease->taken_from());
  }
  if (saver_) {
    rows.emplace_back("snapshot", fmt::format("{} of host memory: checkpoints are written from it "
                                              "while training goes on",
                                              human_bytes(saver_->bytes())));
    details["snapshot_bytes"] = saver_->bytes();
  }
  const auto& from = resumption_.from();
  if (from) {
    const bool in_memory = from->manifest.in_memory();
    rows.emplace_back("resumes", fmt::format("{} (step {}{})", from->folder.string(), from->step,
                                             in_memory ? ", in memory" : ""));
    details["from"] = from->folder.string();
    details["in_memory"] = in_memory;
    details["load_seconds"] = from->seconds;
  }
  if (const auto& weights = resumption_.weights_from()) {
    rows.emplace_back("weights of",
                      fmt::format("{} (step {})", weights->folder.string(), weights->step));
    details["weights_from"] = weights->folder.string();
  }
  if (const GradientCompression& compression = engine_.compression(); compression.compresses()) {
    const double ratio = compression.traffic().ratio();
    rows.emplace_back("compression",
                      fmt::format("{}: gradients' sums over replicas in {:.1f} times fewer bytes",
                                  config_.parallelism.gradient_compression, ratio));
    details["compression"] = config_.parallelism.gradient_compression;
    details["compression_ratio"] = ratio;
    if (from && compression.has_residuals()) {
      rows.emplace_back("residuals", "zero: what compression had left out is in no checkpoint");
      details["residuals"] = "zero";
    }
  }
  log_.banner(from ? "trireme resumes" : "trireme starts", rows);
  if (const std::string drawn = picture(engine_.schedule(), timeline); !drawn.empty()) {
    log_.note("\n" + drawn);
  }
  log_.event(from ? "resume" : "start", progress_.step, details);
  if (drill_) log_.warn(progress_.step, say(GradientDrill::kVariable, ": ", drill_->text()));
  resumption_.tell(log_);
}

void TrainRun::step() {
  const double start = seconds_now();
  const std::int64_t number = progress_.step + 1;
  ledger_.set_step(number);
  ledger_.enter(Phase::kData);
  const double rate =
      learning_rate(config_.lr_scheduler, config_.optimizer.lr, number, total_steps_);
  if (trace_) trace_->begin_step(number, stream_);
  const Engine::StepResult result = train(rate, number);
  ledger_.enter(Phase::kReport);
  const double seconds = seconds_now() - start;
  const StepTrace::Shares traced = trace_ ? trace_->end_step() : StepTrace::Shares{};
  if (!result.applied) {
    if (scaler_.answers(result.loss, result.grad_norm)) {
      answer_overflow(number);
    } else {
      answer_bad_step(result, number);
    }
    if (trace_ && trace_->done()) end_trace();
    return agree();
  }
  guard_.accept(number, result.loss, result.grad_norm);
  progress_.step = number;
  progress_.samples += static_cast<std::uint64_t>(config_.training.global_batch_size);
  progress_.tokens += tokens_per_step(config_);
  progress_.loss = result.loss;
  progress_.grad_norm = result.grad_norm;
  require_plan_holds();
  agree();
  check_itself(result);

  const double peak = matrix_peak(seconds) * seconds * team_.size();
  StepMetrics metrics{.step = number,
                      .tokens = progress_.tokens,
                      .loss = result.loss,
                      .grad_norm = result.grad_norm,
                      .lr = rate,
                      .step_seconds = seconds,
                      .tokens_per_second = static_cast<double>(tokens_per_step(config_)) / seconds,
                      .mfu = flops_.useful / peak,
                      .hfu = flops_.issued / peak,
                      .memory_peak_bytes = agreed_.memory_peak_bytes,
                      .process_peak_bytes = agreed_.process_peak_bytes,
                      .validation_loss = {},
                      .validation_bits_per_byte = {},
                      .more = {}};
  // g++ 12 doubts *bubble.
  if (traced.bubble) metrics.more.emplace_back("bubble", traced.bubble.value_or(0));
  if (traced.hidden) metrics.more.emplace_back("hidden_communication", traced.hidden.value_or(0));
  if (scaler_.scales()) {
    metrics.more.emplace_back("loss_scale", scaler_.scale());
    metrics.more.emplace_back("overflows", static_cast<double>(scaler_.overflows()));
    scaler_.accept();
  }
  if (guard_.skips() > 0) metrics.more.emplace_back("skips", static_cast<double>(guard_.skips()));
  if (guard_.rollbacks() > 0)
    metrics.more.emplace_back("rollbacks", static_cast<double>(guard_.rollbacks()));
  if (trace_ && trace_->done()) end_trace();
  validate(metrics);
  if (agreed_.chose_gemms) share_gemm_choices();  // before anything tells of the step
  log_.step(metrics);
}

void TrainRun::check_itself(const Engine::StepResult& result) {
  if (self_check_ && resumption_.from()) {
    self_check_->compare({.step = progress_.step,
                          .taken = {.loss = result.loss,
                                    .grad_norm = result.grad_norm,
                                    .skips = guard_.skips(),
                                    .rollbacks = guard_.rollbacks()},
                          .products_chosen = agreed_.chose_gemms,
                          .norm_compares = !engine_.compression().has_residuals()},
                         config_.training.dtype, log_);
  }
  self_check_.reset();
}

Engine::StepResult TrainRun::train(double rate, std::int64_t number) {
  const auto part = [&](const char* name, const auto& work) {
    if (!trace_) return work();
    const StepTrace::Part traced(*trace_, name);
    return work();
  };
  const std::int64_t valid = part(
      "data", [&] { return fill(train_data_, progress_.samples, UINT64_MAX, progress_.left_out); });
  if (valid == 0) throw on_all_ranks(DataError(say("step ", number, " has no token to predict")));
  engine_.scale_loss(scaler_.scale());
  part("gradients", [&] { engine_.queue_gradients(valid, number); });
  if (drill_) drill_->strike(stream_, engine_.params(), team_.rank(), number);
  // On a device the loss is waited for only where the limit depends on it.
  const bool waits = guard_.needs_loss() || !stream_.on_cuda();
  const double limit = waits ? guard_.norm_limit(engine_.loss()) : Engine::kNoLimit;
  return part("update", [&] {
    engine_.queue_update(rate, number, limit);
    return engine_.result();
  });
}

// This rank's micro-batches of the step that begins with sample `first`, counted without those
// left out; those from `end` on have nothing to predict. The valid targets of all ranks.
std::int64_t TrainRun::fill(const data::SampleSource& source, std::uint64_t first,
                            std::uint64_t end, const data::LeftOut& left_out) {
  const auto size = static_cast<std::uint64_t>(spec_.micro_batch);
  double valid[] = {0};
  for (std::int64_t own = 0; own < spec_.micro_batches; ++own) {
    const auto number =
        static_cast<std::uint64_t>(engine_.micro_batches().number(engine_.data_rank(), own));
    valid[0] += static_cast<double>(
        fill_batch(engine_.batch().part(own * spec_.micro_batch, spec_.micro_batch), source,
                   first + number * size, end, left_out));
  }
  Stream stream;
  groups_.data->all_reduce(stream, host_tensor(std::span(valid)), Reduce::kSum);
  return static_cast<std::int64_t>(valid[0]);
}

void TrainRun::end_trace() {
  log_.note("the first steps are traced: trace-*.json opens in ui.perfetto.dev");
  const auto [bubble, hidden] = trace_->shares();
  if (bubble) {
    const double predicted = predicted_timeline(engine_.schedule()).idle_fraction();
    log_.note(
        fmt::format("bubble: {:.1f} % of the pipeline's time measured (median), {:.1f} % "
                    "predicted, were its stages equal",
                    100 * *bubble, 100 * predicted));
    log_.event("bubble", progress_.step, {{"measured", *bubble}, {"predicted", predicted}});
  }
  if (hidden) {
    log_.note(
        fmt::format("{:.1f} % of the time of collectives beside the work is hidden (median): no "
                    "rank waits for them meanwhile",
                    100 * *hidden));
    log_.event("hidden_communication", progress_.step, {{"measured", *hidden}});
  }
  engine_.observe(nullptr);
  world_.observe(nullptr);
  trace_.reset();
}

// A step faster than the peak means that others used the cores while it was measured.
double TrainRun::matrix_peak(double seconds) {
  constexpr int kMostAgain = 5;
  const double issued = plan_.issued.matmul + plan_.issued.attention_causal;
  if (issued > matrix_peak_ * seconds && matrix_peak_measured_again_ < kMostAgain) {
    ++matrix_peak_measured_again_;
    matrix_peak_ = std::max(matrix_peak_, measured_matrix_peak(spec_.compute, stream_.device()));
  }
  return std::max(matrix_peak_, issued / seconds);
}

void TrainRun::require_plan_holds() const {
  const MemoryPlan actual = arenas_.peaks();
  if (actual == plan_.memory) return;
  std::string differences;
  const auto used = actual.classes();
  const auto planned = plan_.memory.classes();
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i].second == planned[i].second) continue;
    differences +=
        fmt::format(" {} {} planned, {} used;", used[i].first, planned[i].second, used[i].second);
  }
  if (actual.host_total() != plan_.memory.host_total()) {
    differences += fmt::format(" of the host {} planned, {} used;", plan_.memory.host_total(),
                               actual.host_total());
  }
  throw Error("the memory plan does not hold:" + differences);
}

void TrainRun::validate(StepMetrics& metrics) {
  const ValidationConfig& how = config_.validation;
  if (!validation_data_ || how.freq <= 0) return;
  if (metrics.step % how.freq != 0 && metrics.step != total_steps_) return;
  const double start = seconds_now();
  ledger_.enter(Phase::kValidate);
  const auto samples = static_cast<std::uint64_t>(how.steps * config_.training.global_batch_size);
  const Evaluation result =
      evaluate(*validation_data_, samples,
               {.samples = static_cast<std::uint64_t>(config_.training.global_batch_size),
                .fill = [&](std::uint64_t first,
                            std::uint64_t end) { return fill(*validation_data_, first, end); },
                .summed_loss = [&] { return engine_.evaluate(); }});
  metrics.validation_loss = result.loss;
  metrics.validation_bits_per_byte = bits_per_byte(result.loss, *validation_data_);
  log_.validation(metrics, result.valid_tokens, seconds_now() - start);
  ledger_.enter(Phase::kReport);
}

ExitCode TrainRun::finish(ExitCode code, const std::string& reason) {
  ledger_.enter(Phase::kEnd);
  if (trace_) end_trace();
  memory_.end(progress_.step);
  log_.event("stop", progress_.step, {{"reason", reason}, {"exit_code", static_cast<int>(code)}});
  log_.sync();
  log_.note(fmt::format("{} at step {} of {}",
                        code == ExitCode::kDone ? "done" : "stopped by " + reason, progress_.step,
                        total_steps_));
  return code;
}

namespace {

LoadedConfig config_for(const LoadedConfig& loaded, const World& world) {
  try {
    return for_ranks(loaded, world.size());
  } catch (const ConfigError& error) {
    throw on_all_ranks(ConfigError(error.what()));
  }
}

}  // namespace

ExitCode train(const LoadedConfig& loaded) {
  const std::optional<GradientDrill> drill = GradientDrill::from(environment_variable);
  World world(environment_variable);
  const WatchOptions watch{.heartbeat_timeout_s = loaded.config.elastic.heartbeat_timeout_s,
                           .stall_timeout_s = loaded.config.elastic.stall_timeout_s};
  return run_rank(world, watch, [&] {
    const Device device = open_device(loaded.config.job.device, world.local_rank());
    world.use_device(device);
    const int threads = cpu::use_threads(loaded.config.job.threads, world.local_size());
    return TrainRun(config_for(loaded, world), world, device, threads, drill).run();
  });
}

}  // namespace trireme
