#pragma once
#include <string>
#include <vector>

namespace trireme {

// Replaces this process by mpirun, which starts this program with arguments `words` on `ranks`
// ranks of this machine. Throws EnvironmentError if mpirun cannot be started.
[[noreturn]] void become_ranks(int ranks, const std::vector<std::string>& words);

}  // namespace trireme
