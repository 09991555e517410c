#pragma once
#include "trainer/config/run_config.h"

namespace trireme {

// Throws ConfigError where data.tokenizer names a missing file, and DataError where it is not the
// one that made the token files. Those without a sidecar do not say what made them.
void check_tokenizer(const RunConfig& config);

}  // namespace trireme
