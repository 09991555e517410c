#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/ledger_losses.h"
#include "trainer/supervise/watchdog/verdict.h"

namespace trireme {

// A rank as its ledger shows it, which may have outlived it.
struct RecordedRank {
  enum class State : std::uint8_t {
    kRuns,       // its process is here and works or waits
    kStopped,    // it is here, and does nothing: SIGSTOP, a debugger
    kGone,       // it is not here any more
    kElsewhere,  // it is another host's
    kMissing,    // it has kept no ledger
  };
  State state = State::kMissing;
  std::string host;
  int pid = 0;
  std::int64_t started = 0, started_unix = 0;  // one moment by two clocks
  ledger::Ending ending = ledger::Ending::kNone;
  std::int64_t ended = 0;
  LedgerPage page;
  std::vector<LedgerLoss> losses;   // of others, while it was there
  std::vector<ledger::Call> calls;  // the newest, oldest first

  // Nanoseconds since 1970, of a time by its ledger's clock, which is its host's.
  std::int64_t unix_of(std::int64_t time) const { return started_unix + (time - started); }
};

// What the ranks of an incarnation did last, while it hangs or after its end.
struct FlightRecorder {
  std::filesystem::path folder;
  std::vector<RecordedRank> ranks;
  std::int64_t now = 0;  // unix: the moment of reading; of an incarnation that is over, its last

  bool is_over() const;
};

// `folder`: of a run, or of ledgers. Throws EnvironmentError where there are none, or where
// one is damaged or of another incarnation than the rest.
FlightRecorder read_flight_recorder(const std::filesystem::path& folder);

// The ranks as the judges of verdict.h want them.
WorldReport world_report(const FlightRecorder& recorder);

// Whom the ledgers blame, judged like the live run. A rank that ended without saying so was
// killed; where all were, and none had seen another go, who stood still before is asked. Nothing
// where a run goes on, or has ended in order.
std::optional<Verdict> judge(const FlightRecorder& recorder);

}  // namespace trireme
