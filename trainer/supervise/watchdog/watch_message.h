#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/comm/ledger_reader.h"
#include "trainer/supervise/watchdog/verdict.h"

namespace trireme {

// What the watchdogs of one run, all of one build and kind of machine, tell each other.
struct WatchMessage {
  enum class Kind : std::uint8_t {
    kHello = 0,    // the first on a connection, from both ends: rank, pid
    kBeat = 1,     // the sender lives: now, page
    kAsk = 2,      // for a beat at once, because the ranks were lost, if any
    kFailure = 3,  // the sender's part has failed: health, text, now, page
    kVerdict = 4,  // the run has to end: health, ranks, text, and when by the sender's clock: now
    kGoodbye = 5,  // the sender's part is done
  };

  Kind kind = Kind::kHello;
  std::int32_t rank = -1;
  std::int32_t pid = 0;
  std::int64_t now = 0;
  LedgerPage page = {};
  RankHealth health = RankHealth::kWell;
  std::vector<int> ranks = {};
  std::string text = {};

  std::string encoded() const;
  // Throws Error when it is none.
  static WatchMessage decoded(std::string_view bytes);
};

}  // namespace trireme
