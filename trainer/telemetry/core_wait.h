#pragma once
#include <optional>

namespace trireme {

// Seconds that this process's living threads wanted a core and got none (the kernel's run
// delay); nothing where the kernel does not count them.
std::optional<double> seconds_without_core();

// Notices that others compute on a run's cores: then its threads wait for each other, and a step
// takes several times as long as with fewer of them.
class CoreWait {
 public:
  // Looks at stretches of at least so many seconds.
  explicit CoreWait(int threads, double stretch_seconds = 5)
      : threads_(threads), stretch_seconds_(stretch_seconds) {}

  // At time `now`, in seconds of any clock, `waited` being seconds_without_core(): once, at the end
  // of the first stretch in which the threads waited for a core for more than a quarter of it, that
  // share.
  std::optional<double> look(double now, std::optional<double> waited);

 private:
  int threads_;
  double stretch_seconds_;
  bool has_told_ = false;
  std::optional<double> begin_;
  double waited_before_ = 0;
};

}  // namespace trireme
