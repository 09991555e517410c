#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/launcher.h"
#include "parallel/comm/ledger_layout.h"

namespace trireme {

// A drill for what watches over the ranks and starts them anew: a rank fails where its ledger
// enters a phase, or a call to a communicator, from a step on.
//   TRIREME_INJECT_FAULT="rank=2 step=5 phase=backward action=kill once=FILE"
// The phase is one of ledger::Phase, with '-' for a blank, or one of ledger::Operation; the
// first step is 1; before it is 0. The actions:
//   kill abort stop  SIGKILL, SIGABRT or SIGSTOP to itself
//   exit             the process ends with 0, as if it were done, without a word to the others
//   throw            an exception that nobody expects
//   hang             its thread sleeps for ever, while those beside it are well
// `once` names a file that is made before the fault: where it is there already, as in a run
// that was started anew, nothing happens. Without it the fault comes back each time. Several,
// with ';' between them, come each in its place.
class FaultDrill {
 public:
  static constexpr const char* kVariable = "TRIREME_INJECT_FAULT";

  // Nothing when the variable is not set. Throws ConfigError.
  static std::optional<FaultDrill> from(const Variables& variables);

  // To be called with what the rank's ledger enters. A rank the world lacks is never
  // struck: a run may shrink.
  void strike(int rank, const ledger::Progress& at) const;

  const std::string& text() const { return text_; }

 private:
  enum class Action : std::uint8_t { kKill, kAbort, kStop, kExit, kThrow, kHang };
  struct Fault {
    std::int64_t rank = 0, step = 0;
    std::optional<ledger::Phase> phase;
    std::optional<ledger::Operation> operation;  // where it is no phase
    Action action = Action::kKill;
    std::filesystem::path once;  // or empty
    std::string text;
  };

  explicit FaultDrill(std::string text);
  static Fault parse(const std::string& text);
  static void commit(const Fault& fault);

  std::string text_;
  std::vector<Fault> faults_;
};

}  // namespace trireme
