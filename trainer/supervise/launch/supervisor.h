#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/store/lease.h"
#include "trainer/config/loaded_config.h"
#include "trainer/supervise/launch/awaited_signals.h"
#include "trainer/supervise/launch/hosts.h"
#include "trainer/supervise/launch/restart_policy.h"
#include "trainer/supervise/launch/run_follower.h"
#include "trainer/supervise/launch/world_fit.h"
#include "trainer/supervise/node_agent/started_process.h"
#include "trainer/telemetry/events_log.h"

namespace trireme {

// Supervises a run: starts its ranks, follows their events, kills what is left after a failure, and
// restarts them on as many ranks as the available hosts allow, from the newest state in memory or
// on disk. An Open MPI 4.1 world cannot survive the loss of a rank, so every restart is a new
// world. The ranks watch each other (Watch); the supervisor only waits for the launcher to exit,
// and intervenes if no rank makes progress any more.
class Supervisor {
 public:
  struct Job {
    LoadedConfig loaded;
    std::vector<std::string> words;  // arguments of `trireme train`: CONFIG and overrides
    int ranks = 1;                   // requested
  };
  // Throws ConfigError, and CheckpointError if another process writes to the run folder.
  Supervisor(Job job, std::unique_ptr<Hosts> hosts);

  // Returns the exit code of the process once the run has finished or is given up.
  int run();

 private:
  enum class StopRequest : std::uint8_t { kNone, kResize, kStop, kKill };
  // The incarnation that is running.
  struct Incarnation {
    const WorldFit& fit;
    const std::vector<HostSlots>& places;
    StartedProcess& launcher;  // mpirun, srun
    RunFollower& follower;
    double launched;
    std::chrono::system_clock::time_point launched_at;  // the same time on the wall clock
  };
  struct Outcome {
    int exit_code = 0;
    double seconds = 0;
    std::string verdict;
    std::optional<double> detect_seconds;
    bool excludes_host = false;  // later incarnations run without it
  };
  Outcome run_once(const WorldFit& fit, const std::vector<HostSlots>& places);
  Outcome follow(const Incarnation& running);
  void take_signal(int signal);
  void forward_stop(const Incarnation& running);
  void check_hosts(const Incarnation& running);
  std::vector<HostSlots> usable();
  // Excludes the hosts whose ranks failed a check of their own, if a layout fits without them.
  // Returns whether a host was excluded.
  bool exclude_unfit(const Incarnation& running);
  // Derives a verdict from the recordings when the ranks could not report one, and records it as a
  // failure.
  void judge_recordings(const Incarnation& running, Outcome& outcome) const;
  // Why the ranks have to be killed; empty while they make progress.
  std::string stall_reason(const Incarnation& running);
  void record_recovery(const Incarnation& running);
  static void print(const std::string& text);  // to stderr
  void record(const std::string& event, const EventsLog::Details& details) const;
  int give_up(int code, const std::string& why) const;

  const Job job_;
  const ElasticConfig& elastic_;
  const std::filesystem::path run_dir_;
  const std::unique_ptr<Hosts> hosts_;
  checkpoint::Lease lease_;  // held for all ranks, across restarts
  const AwaitedSignals signals_;
  // environment variable of every started process; the attempt is appended
  const std::string mark_;
  RestartPolicy policy_;
  std::set<std::string> excluded_;  // hosts
  int attempt_ = 0;
  std::string why_ = "start";  // reason of this attempt
  std::int64_t best_step_;     // completed by any incarnation
  struct PreviousFailure {
    double at = 0;
    std::int64_t step = 0;                 // newest completed step
    std::optional<double> detect_seconds;  // if the time of the fault is known
  };
  std::optional<PreviousFailure> failed_;
  StopRequest requested_ = StopRequest::kNone;
  struct ForwardedStop {
    StopRequest request = StopRequest::kNone;
    double at = 0;
    std::int64_t step = 0;
  };
  ForwardedStop forwarded_;  // newest
  double hosts_seen_at_ = 0;
  struct Progress {
    std::uint64_t ticks = 0;      // sum over the ranks' recordings
    bool has_recordings = false;  // the recordings are of this incarnation
    double at = 0;
  };
  Progress progress_;  // newest
};

}  // namespace trireme
