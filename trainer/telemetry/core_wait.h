#pragma once
#include <optional>

namespace trireme {

// Seconds that the live threads of this process were runnable but waited for a core (the kernel's
// run delay); nothing if the kernel does not report it.
std::optional<double> seconds_without_core();

// Detects that other processes compete for the cores of a run, which slows a step down several
// times because its threads wait for each other.
class CoreWait {
 public:
  // `threads`: compute threads of the process. `stretch_seconds`: minimum length of an observed
  // interval.
  explicit CoreWait(int threads, double stretch_seconds = 5)
      : threads_(threads), stretch_seconds_(stretch_seconds) {}

  // `now`: seconds of any clock; `waited`: seconds_without_core(). Returns, once per object, the
  // share of time that the threads waited for a core, at the end of the first interval in which it
  // exceeds a quarter.
  std::optional<double> look(double now, std::optional<double> waited);

 private:
  int threads_;
  double stretch_seconds_;
  bool has_reported_ = false;
  std::optional<double> begin_;
  double waited_before_ = 0;
};

}  // namespace trireme
