#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/flight_recorder_reader.h"

namespace trireme {

// Health of a rank, as seen by other ranks. Later values are likelier causes of a failure.
enum class RankHealth : std::uint8_t {
  kWell = 0,
  kLeft = 1,        // finished its work
  kPeerFailed = 2,  // failed because another rank failed
  kSilent = 3,      // no heartbeat: stopped, or its node is unreachable
  kFailed = 4,      // reported an error of its own
  kLost = 5,        // its connection closed without a message
};

inline bool is_bad(RankHealth health) {
  return health > RankHealth::kLeft;
}

// Name of the health of a blamed rank: "lost", "failed", "silent", "stalled", ...
const char* name_of(RankHealth health);

// State of one rank as known to the judge. Ranks are world ranks.
struct RankReport {
  std::string host;
  RankHealth health = RankHealth::kWell;
  std::string words;    // its error message, if it failed
  double silent_s = 0;  // seconds since its last heartbeat
  // Time at which its failure or loss was seen, nanoseconds on one clock for all ranks; 0: unknown.
  std::int64_t bad_since = 0;
  std::vector<int> outlived = {};  // ranks that it saw fail earlier
  FlightRecorderPage page;         // newest known page
  std::int64_t now = 0;            // nanoseconds on the page's clock

  double unchanged_s() const { return static_cast<double>(now - page.progress.changed) * 1e-9; }
  double waits_s() const { return static_cast<double>(now - page.progress.waits_since) * 1e-9; }
};
using WorldReport = std::vector<RankReport>;  // indexed by rank

// The cause of a failed run.
struct Verdict {
  std::vector<int> ranks;  // blamed ranks
  RankHealth health = RankHealth::kWell;
  // One line: the first blamed rank, its position in the step, and the ranks that wait for it.
  std::string text;
};

// The ranks that `rank` is waiting for: the peer of a message; the members of a collective that
// have not entered it, or, if all have, the unhealthy members that are still in it.
std::vector<int> awaited_by(const WorldReport& world, int rank);

// Whether every healthy rank waits for others, so that no further progress is possible.
bool all_wait(const WorldReport& world);

// Blames the ranks with the worst health. Among failed and lost ranks it blames the first, and
// those that failed at the same moment: a launcher that sees a rank die kills the others. Nothing
// if all ranks are healthy.
std::optional<Verdict> judge_health(const WorldReport& world);

// Maximum seconds without progress of a rank that others wait for.
struct StallLimits {
  double usual_s = 0;
  double storage_s = 0;  // while starting, loading or saving, if longer
  double of(const FlightRecorderPage& page) const;
};

// For healthy ranks: follows the wait-for graph from the rank that has waited longest, and blames
// the rank at its end, or the cycle (deadlock). Nothing until the blamed ranks have made no
// progress for their limit.
std::optional<Verdict> judge_stall(const WorldReport& world, const StallLimits& limits);

// Position of a rank, such as "step 120, backward of micro-batch 3, layer 17, all_reduce 412 of
// group tensor [2 3]".
std::string place_of(const WorldReport& world, int rank);

}  // namespace trireme
