#pragma once
#include <csignal>

namespace trireme {

// Blocks SIGTERM, SIGUSR1, SIGINT and SIGCHLD for the lifetime of the object, and delivers them one
// by one through wait() instead of interrupting the process. At most one instance, in a
// single-threaded process.
class AwaitedSignals {
 public:
  AwaitedSignals();
  ~AwaitedSignals();
  AwaitedSignals(const AwaitedSignals&) = delete;
  AwaitedSignals& operator=(const AwaitedSignals&) = delete;

  // Returns the next signal, or 0 after `seconds`.
  int wait(double seconds) const;

 private:
  sigset_t set_;
  sigset_t before_;
};

}  // namespace trireme
