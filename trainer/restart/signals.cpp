#include "trainer/restart/signals.h"

#include <unistd.h>

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
  struct sigaction action {};
  action.sa_handler = ask_to_stop;
  action.sa_flags = SA_RESTART;  // a checkpoint being written goes on
  for (const int signal : kStopping) {
    if (::sigaction(signal, &action, nullptr) != 0) {
      throw EnvironmentError(say("cannot handle ", signal_name(signal)));
    }
  }
}

// A run that was asked to stop leaves with the exit code that says so, although its launcher
// asks all ranks again once the first has left.
StopSignals::~StopSignals() {
  for (const int signal : kStopping) {
    std::signal(signal, asked_by != 0 && signal != SIGINT ? SIG_IGN : SIG_DFL);
  }
}

int StopSignals::asked() const {
  return asked_by;
}

const char* signal_name(int signal) {
  switch (signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGINT:
      return "SIGINT";
    default:
      return "a signal";
  }
}

}  // namespace trireme
