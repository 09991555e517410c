#pragma once
#include <string>
#include <vector>

#include "trainer/tools/verify/finding.h"

namespace trireme::verify {

// What a run of this config may do and these steps did not, with the key that makes them: where
// the layouts are equal, that was not tried.
std::vector<std::string> not_proven(const RunConfig& config, const std::vector<StepFinding>& steps);

}  // namespace trireme::verify
