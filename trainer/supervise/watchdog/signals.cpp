#include "trainer/supervise/watchdog/signals.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "model/base/error.h"

namespace trireme {
namespace {

constexpr std::array kStopping{SIGTERM, SIGUSR1, SIGINT};

// A signal handler can reach nothing else.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
volatile std::sig_atomic_t asked_by = 0;
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
volatile std::sig_atomic_t interrupts = 0;

extern "C" void ask_to_stop(int signal) {
  if (signal == SIGINT) {
    interrupts = interrupts + 1;
    if (interrupts > 1) ::_exit(128 + SIGINT);
  }
  asked_by = signal;
}

}  // namespace

StopSignals::StopSignals() {
  asked_by = 0;
  interrupts = 0;
  constexpr std::size_t kForHandler = std::size_t{1} << 16;
  // A signal frame contains all registers, several kilobytes.
  const long frame = ::sysconf(_SC_MINSIGSTKSZ);
  stack_.resize(kForHandler + static_cast<std::size_t>(std::max(frame, 0L)));
  const stack_t stack{.ss_sp = stack_.data(), .ss_flags = 0, .ss_size = stack_.size()};
  if (::sigaltstack(&stack, &stack_before_) != 0)
    throw EnvironmentError("cannot set an alternate signal stack");
  struct sigaction action {};
  action.sa_handler = ask_to_stop;
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // does not interrupt a checkpoint write
  for (const int signal : kStopping) {
    if (::sigaction(signal, &action, nullptr) != 0) {
      throw EnvironmentError(say("cannot handle ", signal_name(signal)));
    }
  }
}

// After a requested stop, further signals are ignored, so that the exit code is kept although the
// launcher signals all ranks again once the first has exited.
StopSignals::~StopSignals() {
  for (const int signal : kStopping) {
    std::signal(signal, asked_by != 0 && signal != SIGINT ? SIG_IGN : SIG_DFL);
  }
  ::sigaltstack(&stack_before_, nullptr);
}

int StopSignals::asked() const {
  return asked_by;
}

std::string signal_name(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name ? say("SIG", name) : say("signal ", signal);
}

}  // namespace trireme
