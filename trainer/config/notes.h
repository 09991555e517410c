#pragma once
#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace trireme {

// Warnings about valid but suspicious values, one per line, such as a warmup longer than the run or
// more positions than the model supports.
std::vector<std::string> config_notes(const RunConfig& config);

}  // namespace trireme
