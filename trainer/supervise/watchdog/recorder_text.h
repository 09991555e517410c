#pragma once
#include <string>

#include "trainer/supervise/watchdog/flight_recorder.h"

namespace trireme {

// What the ledgers of an incarnation say, for people: the verdict in one line, what its
// watchdog said when it lived (from events.jsonl), a table of the ranks, and the last calls
// of the rank that is blamed, or of the one that waits longest.
std::string recorder_text(const FlightRecorder& recorder);

}  // namespace trireme
