#pragma once
#include <array>

#include "parallel/optimizer/optimizer.h"
#include "parallel/optimizer/registry.h"
#include "parallel/optimizer/windows.h"

// What the sources of the optimizers share. Each defines its entry of the registry, as published.
// Layer-wise rates and weight decay apply to parameters with ParamSpec::decay, the matrices.
namespace trireme {

template <class T>
std::unique_ptr<Optimizer> make_as(const OptimizerOptions& options, UpdateRanks ranks) {
  return std::make_unique<T>(options, ranks);
}

// Names of AdamW's state and the update of one shard.
inline constexpr std::array kAdamStates{"adam.m", "adam.v"};

void update_by_adamw(const Windows& windows, const OptimizerOptions& options,
                     const UpdateStep& step, const ParamShard& shard);

}  // namespace trireme
