#pragma once
#include <string>

#include "trainer/config/run_config.h"

namespace trireme {

// "4 = pipeline 2 (1F1B) x data shard 2 (ZeRO-1) x tensor 2 with sequence parallelism"
std::string layout_text(const ParallelismConfig& layout);
// ", 3,353,000,000 active per token"; empty without experts.
std::string active_text(const ModelConfig& model);

}  // namespace trireme
