#pragma once
#include <cstdint>
#include <string>

#include "model/base/error.h"

namespace trireme {

// How one incarnation of a run ended, as its supervisor sees it.
struct IncarnationEnd {
  int exit_code = 0;        // of the launcher (mpirun, srun); 128 + n: ended by signal n
  std::int64_t step = 0;    // the newest that was finished in it or before
  bool was_asked = false;   // to end after a commit, by the supervisor itself
  bool leaves_out = false;  // a host that was unfit: the next one goes without it
};

// What a supervisor does next.
struct RestartDecision {
  bool restarts = false;
  double wait_s = 0;  // before that
  int exit_code = 0;  // where it does not
  std::string why;
};

// Decides whether a run that ended is started again. What a restart would not mend is not
// tried: a bad config, a diverged run, and data, checkpoints or an environment that were bad
// before a step was made. Anything else is, until kMostWithoutProgress incarnations in a row
// have finished no step that was not finished before: ExitCode::kNoProgress. Without progress
// it waits longer each time. Another machine may mend what a restart would not: where a host is
// left out it is tried at once.
class RestartPolicy {
 public:
  static constexpr int kMostWithoutProgress = 3;

  // `max_restarts`: after failures. `wait_s`: before the first restart without progress.
  // `step`: the newest finished before the first incarnation.
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
