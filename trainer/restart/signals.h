#pragma once

namespace trireme {

// While one lives, SIGTERM, SIGUSR1 and the first SIGINT only ask the run to stop
// (Slurm sends them before a time limit or a preemption); a second SIGINT ends the
// process at once. One in a process.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal that asked, or 0.
  int asked() const;
};

// "SIGTERM" and the like.
const char* signal_name(int signal);

}  // namespace trireme
