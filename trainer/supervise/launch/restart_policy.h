#pragma once
#include <cstdint>
#include <string>

#include "model/base/error.h"

namespace trireme {

// How one incarnation of a run ended, as the supervisor observed it.
struct IncarnationEnd {
  int exit_code = 0;           // of the launcher (mpirun, srun); 128 + n: killed by signal n
  std::int64_t step = 0;       // newest completed step, in it or before
  bool was_asked = false;      // stopped by the supervisor after a checkpoint
  bool excludes_host = false;  // the next incarnation runs without an unfit host
};

// The supervisor's next action.
struct RestartDecision {
  bool restarts = false;
  double wait_s = 0;  // seconds to wait before the restart
  int exit_code = 0;  // of the supervisor, if it does not restart
  std::string why;
};

// Decides whether a failed run is restarted. Errors that a restart cannot fix end the run: a bad
// config, a diverged run, and data, checkpoint or environment errors before the first new step. Any
// other failure is restarted, until kMaxWithoutProgress incarnations in a row complete no new step:
// ExitCode::kNoProgress. The wait before a restart grows with each incarnation without progress.
// Excluding a host counts as progress: other hosts may work.
class RestartPolicy {
 public:
  static constexpr int kMaxWithoutProgress = 3;

  // `max_restarts`: maximum number of restarts after failures. `wait_s`: seconds before the first
  // restart without progress. `step`: newest step completed before the first incarnation.
  RestartPolicy(std::int64_t max_restarts, double wait_s, std::int64_t step)
      : max_restarts_(max_restarts), wait_s_(wait_s), newest_(step) {}

  RestartDecision after(const IncarnationEnd& end);
  std::int64_t restarts() const { return restarts_; }

 private:
  std::int64_t max_restarts_;
  double wait_s_;
  std::int64_t newest_;
  std::int64_t restarts_ = 0;
  int without_progress_ = 0;
};

}  // namespace trireme
