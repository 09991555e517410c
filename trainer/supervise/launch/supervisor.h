#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/lease.h"
#include "trainer/config/loaded_config.h"
#include "trainer/supervise/launch/awaited_signals.h"
#include "trainer/supervise/launch/hosts.h"
#include "trainer/supervise/launch/restart_policy.h"
#include "trainer/supervise/launch/run_follower.h"
#include "trainer/supervise/launch/world_fit.h"
#include "trainer/supervise/node_agent/started_process.h"
#include "trainer/telemetry/events_log.h"

namespace trireme {

// Keeps a run going: starts its ranks, follows what they tell, ends what is left of them when
// one fails, and starts them anew, on as many ranks as there is room for, from the newest state
// they find. A world of MPI ranks cannot lose one and live (Open MPI 4.1), so it is disposable;
// what goes on is the run. The ranks watch over each other (Watch): this process only waits for
// the launcher's end, and steps in where nobody of them moves any more.
class Supervisor {
 public:
  struct Job {
    LoadedConfig loaded;
    std::vector<std::string> words;  // for the ranks' `trireme train`: CONFIG and overrides
    int ranks = 1;                   // wanted
  };
  // Throws ConfigError; CheckpointError where another writes into the run's folder.
  Supervisor(Job job, std::unique_ptr<Hosts> hosts);

  // Until the run has ended or is given up. Returns what the process is to exit with.
  int run();

 private:
  enum class Asked : std::uint8_t { kNothing, kResize, kStop, kEndAtOnce };
  // Of the incarnation that runs.
  struct Running {
    const WorldFit& fit;
    const std::vector<HostPlace>& places;
    StartedProcess& launcher;  // mpirun, srun
    RunFollower& follower;
    double launched;
    std::chrono::system_clock::time_point launched_at;  // the same moment
  };
  struct Ended {
    int exit_code = 0;
    double seconds = 0;
    std::string verdict;
    std::optional<double> detect_seconds;
    bool leaves_out = false;  // a host, for all that follow
  };
  Ended run_once(const WorldFit& fit, const std::vector<HostPlace>& places);
  Ended follow(const Running& running);
  void take_signal(int signal);
  void pass_on(const Running& running);
  void look_at_hosts(const Running& running);
  std::vector<HostPlace> usable();
  // Whether there was a host that the ranks' own checks accuse, and that the run can do without.
  bool leave_out_unfit(const Running& running);
  // Whom the ledgers blame, where the ranks could not tell it any more; as a failure of the run.
  void judge_ledgers(const Running& running, Ended& ended) const;
  // Why nothing more is to be expected of the ranks; empty: they go on.
  std::string lost_hope(const Running& running);
  void tell_recovered(const Running& running);
  static void tell(const std::string& text);  // on stderr
  void record(const std::string& event, const EventsLog::Details& details) const;
  int give_up(int code, const std::string& why) const;

  const Job job_;
  const ElasticConfig& elastic_;
  const std::filesystem::path run_dir_;
  const std::unique_ptr<Hosts> hosts_;
  checkpoint::Lease lease_;  // for all ranks, from the first start to the end of the last
  const AwaitedSignals signals_;
  const std::string mark_;  // in the environment of all that is started, with the attempt
  RestartPolicy policy_;
  std::set<std::string> left_out_;  // hosts
  int attempt_ = 0;
  std::string why_ = "start";  // of this attempt
  std::int64_t best_step_;     // finished by any incarnation
  struct Failed {
    double at = 0;
    std::int64_t step = 0;                 // the newest it had
    std::optional<double> detect_seconds;  // where the fault's time is known
  };
  std::optional<Failed> failed_;  // the incarnation before
  Asked asked_ = Asked::kNothing;
  Asked passed_on_ = Asked::kNothing;
  double passed_on_at_ = 0;
  std::int64_t passed_on_step_ = 0;
  double hosts_seen_at_ = 0;
  std::uint64_t ticks_ = 0;   // of all ranks' ledgers
  bool has_ledgers_ = false;  // its own: those from before have given way
  double ticked_at_ = 0;
};

}  // namespace trireme
