#pragma once
#include <array>

#include "parallel/optimizer/optimizer.h"
#include "parallel/optimizer/windows.h"

// The optimizers of the registry, as published. Layer-wise rates and weight decay apply to
// parameters with ParamSpec::decay, the matrices.
namespace trireme {

// Names of AdamW's state and the update of one shard.
inline constexpr std::array kAdamStates{"adam.m", "adam.v"};

void update_by_adamw(const Windows& windows, const OptimizerOptions& options,
                     const UpdateStep& step, const ParamShard& shard);

// Adam with decoupled weight decay (Loshchilov and Hutter 2019); see ops::adamw.
std::unique_ptr<Optimizer> make_adamw(const OptimizerOptions& options, UpdateRanks ranks);

// SGD with momentum and weight decay added to the gradient, as torch.optim.SGD; see ops::sgd_step.
std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options, UpdateRanks ranks);

// Lion (Chen et al. 2023), as the authors' lion_pytorch; see ops::lion.
std::unique_ptr<Optimizer> make_lion(const OptimizerOptions& options, UpdateRanks ranks);

// LAMB (You et al. 2020), as NVIDIA's FusedLAMB: with bias correction; the layer-wise rate is
// |weight| / |update|.
std::unique_ptr<Optimizer> make_lamb(const OptimizerOptions& options, UpdateRanks ranks);

// LARS (You, Gitman, Ginsburg 2017, algorithm 1): momentum accumulates the gradient times learning
// rate times trust_coefficient |weight| / (|gradient| + weight_decay |weight|).
std::unique_ptr<Optimizer> make_lars(const OptimizerOptions& options, UpdateRanks ranks);

// Muon (Jordan et al. 2024) for the matrices of the blocks, AdamW for the rest. Each matrix is
// gathered from all ranks, orthogonalized by one rank, and scattered again; ranks take turns by
// matrix size.
std::unique_ptr<Optimizer> make_muon(const OptimizerOptions& options, UpdateRanks ranks);

}  // namespace trireme
