#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

// The newest step in RUN_DIR/metrics.jsonl; 0 where there is none.
std::int64_t newest_step(const std::filesystem::path& run_dir);

// What an incarnation tells in its run folder while it runs, from the moment this is made. Times
// are seconds_now() when it was seen here.
class RunFollower {
 public:
  explicit RunFollower(std::filesystem::path run_dir);

  // Reads what is new. Never throws for files that are not there yet.
  void look();

  struct Begun {
    std::int64_t step = 0;  // it goes on from
    std::string from;       // a checkpoint's folder; empty: from nothing
    bool in_memory = false;
    double load_seconds = 0;
    double at = 0;
  };
  struct Failure {
    std::string text;
    bool has_own_code = false;             // a rank failed by itself: its exit code says more
    std::optional<double> detect_seconds;  // since those who are blamed last worked
    double at = 0;
  };
  // Ranks that its own checks have found unfit: the preflight, or the comparison of replicas.
  struct Unfit {
    std::vector<int> ranks;
    std::vector<std::string> hosts;  // theirs, as the machines call themselves
    std::string why;
  };
  // Its start or resume event.
  const std::optional<Begun>& begun() const { return begun_; }
  // The first verdict.
  const std::optional<Failure>& failure() const { return failure_; }
  const std::optional<Unfit>& unfit() const { return unfit_; }
  // The exit code of its stop event: its part is done.
  const std::optional<int>& stopped() const { return stopped_; }
  double stopped_at() const { return stopped_at_; }
  // When its first step was in metrics.jsonl; and the newest step of all.
  const std::optional<double>& first_step_at() const { return first_step_at_; }
  std::int64_t step() const { return step_; }

 private:
  void take(const std::string& line);

  std::filesystem::path run_dir_;
  std::uint64_t read_ = 0;  // bytes of events.jsonl
  std::string part_;        // of a line
  std::optional<Begun> begun_;
  std::optional<Failure> failure_;
  std::optional<Unfit> unfit_;
  std::optional<int> stopped_;
  double stopped_at_ = 0;
  std::optional<double> first_step_at_;
  std::int64_t step_ = 0;
};

}  // namespace trireme
