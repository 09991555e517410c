#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/comm/flight_recorder_reader.h"
#include "trainer/supervise/watchdog/verdict.h"

namespace trireme {

// A message between the watchdogs of one run. All ranks run the same build on the same
// architecture.
struct WatchMessage {
  enum class Kind : std::uint8_t {
    kHello = 0,    // first message of both ends: rank, pid
    kBeat = 1,     // heartbeat: now, page
    kAsk = 2,      // requests a heartbeat; ranks: lost ranks, if any
    kFailure = 3,  // the sender has failed: health, text, now, page
    kVerdict = 4,  // the run ends: health, ranks, text, and when by the sender's clock: now
    kGoodbye = 5,  // the sender has finished
  };

  Kind kind = Kind::kHello;
  std::int32_t rank = -1;
  std::int32_t pid = 0;
  std::int64_t now = 0;
  FlightRecorderPage page = {};
  RankHealth health = RankHealth::kWell;
  std::vector<int> ranks = {};
  std::string text = {};

  std::string encoded() const;
  // Throws Error for an invalid message.
  static WatchMessage decoded(std::string_view bytes);
};

}  // namespace trireme
