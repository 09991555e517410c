#pragma once
#include <csignal>

namespace trireme {

// SIGTERM, SIGUSR1, SIGINT and the end of a child, taken one by one while one of these lives
// instead of interrupting. One in a process of one thread.
class AwaitedSignals {
 public:
  AwaitedSignals();
  ~AwaitedSignals();
  AwaitedSignals(const AwaitedSignals&) = delete;
  AwaitedSignals& operator=(const AwaitedSignals&) = delete;

  // The next one, or 0 after `seconds`.
  int wait(double seconds) const;

 private:
  sigset_t set_;
  sigset_t before_;
};

}  // namespace trireme
