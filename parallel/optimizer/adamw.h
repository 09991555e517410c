#pragma once
#include "parallel/optimizer/windows.h"

namespace trireme {

// Names of AdamW's state and the update of one shard.
inline constexpr std::array kAdamStates{"adam.m", "adam.v"};

void update_by_adamw(const Windows& windows, const OptimizerOptions& options,
                     const UpdateStep& step, const ParamShard& shard);

}  // namespace trireme
