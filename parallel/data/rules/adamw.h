#pragma once
#include "parallel/data/rules/windows.h"

namespace trireme {

// AdamW's share of a rule: its state's names and one range's update.
inline constexpr std::array kAdamStates{"adam.m", "adam.v"};

void update_by_adamw(const Windows& windows, const OptimizerOptions& options,
                     const UpdateStep& step, const UpdateRange& range);

}  // namespace trireme
