#pragma once
#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace trireme {

// What is allowed and may not be meant, a line each: a warmup longer than the run, positions beyond
// those a model is made for.
std::vector<std::string> config_notes(const RunConfig& config);

}  // namespace trireme
