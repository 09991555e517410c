#pragma once
#include <string>

#include "trainer/supervise/watchdog/flight_recorder.h"

namespace trireme {

// Readable report of an incarnation's recordings: the verdict in one line, the verdict of the live
// watchdog (from events.jsonl), a table of the ranks, and the last calls of the blamed rank, or of
// the one that has been idle longest.
std::string recorder_text(const RankRecordings& recorder);

}  // namespace trireme
