#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/supervise/watchdog/verdict.h"

namespace trireme {

// Progress of all ranks of a run together, from the recordings in RUN_DIR/flight-recorder.
struct WorldProgress {
  std::uint64_t ticks = 0;  // changes whenever a rank makes progress
  double limit_s = 0;       // seconds: the longest stall limit of any rank
};
WorldProgress world_progress(const std::filesystem::path& run_dir, const StallLimits& limits);

// Whether every rank is a local process that is stopped (SIGSTOP).
bool all_ranks_stopped(const std::filesystem::path& run_dir);

// Newest step in RUN_DIR/metrics.jsonl; 0 if there is none.
std::int64_t newest_step(const std::filesystem::path& run_dir);

// Follows the events and metrics that an incarnation writes to its run folder after this object was
// created. Times are seconds_now() at which this process saw them.
class RunFollower {
 public:
  explicit RunFollower(std::filesystem::path run_dir);

  // Reads new lines. Missing files are not an error.
  void look();

  struct Start {
    std::int64_t step = 0;  // the step it resumes from
    std::string from;       // checkpoint folder; empty: a new run
    bool in_memory = false;
    double load_seconds = 0;
    double at = 0;
  };
  struct Failure {
    std::string text;
    bool has_own_code = false;  // a rank failed on its own; its exit code is more specific
    std::optional<double> detect_seconds;  // since the blamed ranks last made progress
    double at = 0;
  };
  // Ranks that failed the preflight or a replica check.
  struct UnfitRanks {
    std::vector<int> ranks;
    std::vector<std::string> hosts;  // of `ranks`, as reported by the hosts
    std::string why;
  };
  // The start or resume event.
  const std::optional<Start>& start() const { return start_; }
  // The first failure event that names ranks.
  const std::optional<Failure>& failure() const { return failure_; }
  const std::optional<UnfitRanks>& unfit() const { return unfit_; }
  // Exit code of the stop event: the ranks have finished their work.
  const std::optional<int>& stopped() const { return stopped_; }
  double stopped_at() const { return stopped_at_; }
  // When its first step appeared in metrics.jsonl, and the newest step.
  const std::optional<double>& first_step_at() const { return first_step_at_; }
  std::int64_t step() const { return step_; }

 private:
  void take(const std::string& line);

  std::filesystem::path run_dir_;
  std::uint64_t read_ = 0;  // bytes of events.jsonl read so far
  std::string part_;        // incomplete last line
  std::optional<Start> start_;
  std::optional<Failure> failure_;
  std::optional<UnfitRanks> unfit_;
  std::optional<int> stopped_;
  double stopped_at_ = 0;
  std::optional<double> first_step_at_;
  std::int64_t step_ = 0;
};

}  // namespace trireme
