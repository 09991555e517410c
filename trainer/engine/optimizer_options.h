#pragma once
#include "parallel/data/update_rule.h"
#include "trainer/config/run_config.h"

namespace trireme {

// What a config's [optimizer] asks for.
OptimizerOptions optimizer_options(const RunConfig& config);

}  // namespace trireme
