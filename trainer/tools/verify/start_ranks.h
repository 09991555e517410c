#pragma once
#include <string>
#include <vector>

namespace trireme::verify {

// This process becomes mpirun, which starts this program with `words` as so many ranks of this
// machine. Throws EnvironmentError where there is no mpirun.
[[noreturn]] void become_ranks(int ranks, const std::vector<std::string>& words);

}  // namespace trireme::verify
