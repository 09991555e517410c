#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/flight_recorder_layout.h"
#include "parallel/comm/launcher.h"

namespace trireme::inject {

// Makes a rank fail where its ledger enters a phase, or a collective or message, from a step on,
// to test failure detection and restarts.
//   TRIREME_INJECT_FAULT="rank=2 step=5 phase=backward action=kill once=FILE"
// The phase is a flight::Phase, with '-' for a blank, or a flight::Operation; the first step is 1;
// before it is 0. Actions:
//   kill abort stop  SIGKILL, SIGABRT or SIGSTOP to itself
//   exit             exits with 0, as if it were done, without telling the others
//   throw            an unexpected exception
//   hang             its main thread sleeps forever; its other threads keep running
//   delay            its main thread sleeps for 50 ms, as that of a straggler
// `count=3` (optional): the third time, and each time after, that the ledger advances within the
// phase or enters such a call. `once` (optional) names a file that is created before the fault; if
// it exists, as in a restarted run, nothing happens. Without it the fault repeats. ';' separates
// several faults.
class FaultInjection {
 public:
  static constexpr const char* kVariable = "TRIREME_INJECT_FAULT";

  // Nothing when the variable is not set. Throws ConfigError.
  static std::optional<FaultInjection> from(const Variables& variables);

  // To be called whenever the rank's ledger advances. Ranks that the world lacks are ignored: a run
  // may shrink.
  void apply(int rank, const flight::Progress& at);

  const std::string& text() const { return text_; }

 private:
  enum class Action : std::uint8_t { kKill, kAbort, kStop, kExit, kThrow, kHang, kDelay };
  struct Fault {
    std::int64_t rank = 0, step = 0;
    std::optional<flight::Phase> phase;
    std::optional<flight::Operation> operation;  // unless a phase
    Action action = Action::kKill;
    std::int64_t passed_over = 0;  // times that nothing happens
    std::filesystem::path once;    // or empty
    std::string text;
  };

  explicit FaultInjection(std::string text);
  static Fault parse(const std::string& text);
  static void inject(const Fault& fault);

  std::string text_;
  std::vector<Fault> faults_;
};

}  // namespace trireme::inject
