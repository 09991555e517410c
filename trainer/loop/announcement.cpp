#include <fmt/format.h>

#include "parallel/pipeline/simulate.h"
#include "trainer/config/notes.h"
#include "trainer/loop/run_description.h"
#include "trainer/loop/train_run.h"
#include "trainer/telemetry/human.h"

namespace trireme {
namespace {

// With equal stages.
Timeline predicted_timeline(const Schedule& schedule) {
  return simulate(schedule, ActionCosts::unit(schedule.stages));
}

// A picture of the schedule where it is small enough to be read; else nothing.
std::string picture(const Schedule& schedule, const Timeline& timeline) {
  constexpr int kColumnsOfUnit = 3, kMostColumns = 70;
  const int columns = kColumnsOfUnit * static_cast<int>(timeline.makespan);
  if (schedule.ranks.size() < 2 || columns > kMostColumns) return "";
  return draw(schedule, timeline, columns);
}

}  // namespace

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
       .layers_per_stage = plan_.layers_per_stage,
       .weights = progress_.weights,
       .training_tokens = static_cast<std::int64_t>(train_data_.total_tokens()),
       .samples_per_epoch = static_cast<std::int64_t>(train_data_.samples_per_epoch())});
  details["incarnation"] = folder_.incarnation;
  if (stream_.on_cuda())
    rows.emplace_back("attention",
                      attention_kernels(spec_, groups_.tensor->size(), stream_.device()));
  if (config_.job.cuda_graphs) {
    const std::string why = no_graph_because(spec_, groups_, stream_.device());
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
  if (const GradientCompression& compression = engine_.model().compression();
      compression.compresses()) {
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
  for (const std::string& note : config_notes(config_)) log_.warn(progress_.step, note);
  const auto warn_of = [&](const auto& drill) {
    if (!drill) return;
    log_.warn(progress_.step, say(drill->target().variable, ": ", drill->target().text));
  };
  warn_of(drill_);
  warn_of(weight_drill_);
  resumption_.tell(log_);
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

}  // namespace trireme
