#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/flight_recorder_losses.h"
#include "trainer/supervise/watchdog/verdict.h"

namespace trireme {

// State of a rank, read from its recording. The recording may outlive the process.
struct RecordedRank {
  enum class State : std::uint8_t {
    kRuns,       // local process, running
    kStopped,    // local process, stopped (SIGSTOP, debugger)
    kGone,       // local process, gone
    kElsewhere,  // on another host
    kMissing,    // has no recording
  };
  State state = State::kMissing;
  std::string host;
  int pid = 0;
  // the same moment on the recording clock and on the wall clock
  std::int64_t started = 0, started_unix = 0;
  flight::Ending ending = flight::Ending::kNone;
  std::int64_t ended = 0;
  FlightRecorderPage page;
  std::vector<FlightRecorderLoss> losses;  // lost ranks that it observed
  std::vector<flight::Call> calls;         // most recent calls, oldest first

  // Converts a time of the recording's clock (its host's) to nanoseconds since 1970.
  std::int64_t unix_of(std::int64_t time) const { return started_unix + (time - started); }
};

// The recordings of all ranks of an incarnation that is running, hung or over.
struct RankRecordings {
  std::filesystem::path folder;
  std::vector<RecordedRank> ranks;
  // nanoseconds since 1970: time of reading, or the last event of an incarnation that is over
  std::int64_t now = 0;

  bool is_over() const;
};

// `folder`: a run folder or a folder of recordings. Throws EnvironmentError if there are no
// recordings, or if one is damaged or belongs to another incarnation than the others.
RankRecordings read_flight_recorder(const std::filesystem::path& folder);

// Converts the recordings to the input of verdict.h.
WorldReport world_report(const RankRecordings& recorder);

// Verdict from the recordings, by the rules of the live watchdog. A rank that ended without
// recording why was killed. If all were killed and none observed another's loss, the rank that had
// stalled before is blamed. Nothing if the run is making progress or has finished in order.
std::optional<Verdict> judge(const RankRecordings& recorder);

}  // namespace trireme
