#pragma once
#include <string>
#include <vector>

#include "trainer/tools/verify/finding.h"

namespace trireme::verify {

// Code paths that a run of this config may use but the compared steps did not, each with the config
// key that exercises it.
std::vector<std::string> not_proven(const RunConfig& config, const std::vector<StepFinding>& steps);

}  // namespace trireme::verify
