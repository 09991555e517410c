#pragma once
#include <cstdint>
#include <limits>

namespace trireme {

enum class ProcessState : std::uint8_t { kGone, kRuns, kStopped };  // kGone includes zombies

// State of a local process, from /proc. A process that was started after `recording_started`
// (nanoseconds of flight_recorder_now(), recording.h) has reused the pid: the original one is gone.
ProcessState state_of_process(
    int pid, std::int64_t recording_started = std::numeric_limits<std::int64_t>::max());

// Returns 0 if the process is gone.
int parent_of_process(int pid);

}  // namespace trireme
