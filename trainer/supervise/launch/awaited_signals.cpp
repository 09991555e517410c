#include "trainer/supervise/launch/awaited_signals.h"

#include <cmath>
#include <ctime>
#include <initializer_list>

namespace trireme {

AwaitedSignals::AwaitedSignals() {
  ::sigemptyset(&set_);
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT, SIGCHLD}) ::sigaddset(&set_, signal);
  ::sigprocmask(SIG_BLOCK, &set_, &before_);
}

AwaitedSignals::~AwaitedSignals() {
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int AwaitedSignals::wait(double seconds) const {
  const double whole = std::floor(seconds);
  const timespec limit{.tv_sec = static_cast<std::time_t>(whole),
                       .tv_nsec = static_cast<long>((seconds - whole) * 1e9)};
  const int signal = ::sigtimedwait(&set_, nullptr, &limit);
  return signal > 0 ? signal : 0;
}

}  // namespace trireme
