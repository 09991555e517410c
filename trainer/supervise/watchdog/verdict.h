#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/ledger_reader.h"

namespace trireme {

// How a rank stands, as others see it; what is worse is a likelier cause.
enum class RankHealth : std::uint8_t {
  kWell = 0,
  kLeft = 1,        // its part was done
  kPeerFailed = 2,  // it failed because of another
  kSilent = 3,      // stopped, or its node cannot be reached
  kFailed = 4,      // it has said so itself
  kLost = 5,        // its connection broke without a word
};

inline bool is_bad(RankHealth health) {
  return health > RankHealth::kLeft;
}

// Of a rank that is blamed: "lost", "failed", "silent", "stalled", ...
const char* name_of(RankHealth health);

// What is known of one rank. Ranks are counted in the world.
struct RankReport {
  std::string host;
  RankHealth health = RankHealth::kWell;
  std::string words;    // its own, when it failed
  double silent_s = 0;  // since its last sign of life
  // When its failure or loss was seen, nanoseconds by one clock for all ranks; 0: nobody knows.
  std::int64_t bad_since = 0;
  std::vector<int> outlived = {};  // ranks that it saw go before it
  LedgerPage page;                 // the newest that is known
  std::int64_t now = 0;            // by the clock of the page

  double unchanged_s() const { return static_cast<double>(now - page.progress.changed) * 1e-9; }
  double waits_s() const { return static_cast<double>(now - page.progress.waits_since) * 1e-9; }
};
using WorldReport = std::vector<RankReport>;  // by rank

// Why a run ends.
struct Verdict {
  std::vector<int> ranks;  // whose fault it is
  RankHealth health = RankHealth::kWell;
  // One line: the first of them, what it was in, and who waits for it.
  std::string text;
};

// The ranks that `rank` cannot go on without: of a message the other end; of a collective
// those that have not begun it, or, where all have, those in a bad way that are still in it.
std::vector<int> awaited_by(const WorldReport& world, int rank);

// Whether every rank that is well waits for others: nothing more will happen.
bool all_wait(const WorldReport& world);

// Blames the ranks whose health is the worst; but of those that failed or were lost the first,
// and what came at one moment with it: a launcher that sees a rank go kills the others. Nothing
// where all are well.
std::optional<Verdict> judge_health(const WorldReport& world);

// Seconds for which a rank that is awaited may stand still.
struct StallLimits {
  double usual_s = 0;
  double storage_s = 0;  // while it starts, loads or saves, where that is longer
  double of(const LedgerPage& page) const;
};

// For ranks that are all there: follows who waits for whom, from the one that waits
// longest, and blames the rank at the end that waits for nobody, or the circle they wait
// in. Nothing until who is blamed has not moved for its limit.
std::optional<Verdict> judge_stall(const WorldReport& world, const StallLimits& limits);

// "step 120, backward of micro-batch 3, layer 17, all_reduce 412 of group tensor [2 3]".
std::string place_of(const WorldReport& world, int rank);

}  // namespace trireme
