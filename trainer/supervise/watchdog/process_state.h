#pragma once
#include <cstdint>
#include <limits>

namespace trireme {

enum class ProcessState : std::uint8_t { kGone, kRuns, kStopped };  // kGone: a zombie too

// How the process of this machine with this number stands, by /proc. One that was started after
// `ledger_started`, nanoseconds of ledger_now() (ledger.h), is a stranger: whom it speaks of is
// gone.
ProcessState state_of_process(
    int pid, std::int64_t ledger_started = std::numeric_limits<std::int64_t>::max());

// 0 where it is gone.
int parent_of_process(int pid);

}  // namespace trireme
