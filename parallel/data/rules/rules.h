#pragma once
#include "parallel/data/update_rule.h"

// The rules that make_update_rule chooses from, as published. Where a layer-wise rate or weight
// decay is spoken of, it is that of parameters with ParamSpec::decay, the matrices.
namespace trireme {

// Adam with decoupled weight decay (Loshchilov and Hutter 2019); see ops::adamw.
std::unique_ptr<UpdateRule> make_adamw(const OptimizerOptions& options, UpdateRanks ranks);

// Gradient descent with momentum and weight decay in the gradient, as torch.optim.SGD; see
// ops::descend.
std::unique_ptr<UpdateRule> make_sgd(const OptimizerOptions& options, UpdateRanks ranks);

// Lion (Chen et al. 2023), as its authors' lion_pytorch; see ops::lion.
std::unique_ptr<UpdateRule> make_lion(const OptimizerOptions& options, UpdateRanks ranks);

// LAMB (You et al. 2020), as NVIDIA's FusedLAMB: bias correction, |weight| / |update| as the
// layer-wise rate.
std::unique_ptr<UpdateRule> make_lamb(const OptimizerOptions& options, UpdateRanks ranks);

// LARS (You, Gitman, Ginsburg 2017, algorithm 1): the momentum takes in the gradient times the
// learning rate and trust_coefficient |weight| / (|gradient| + weight_decay |weight|).
std::unique_ptr<UpdateRule> make_lars(const OptimizerOptions& options, UpdateRanks ranks);

// Muon (Jordan et al. 2024) on the blocks' matrices, AdamW on all else. Each matrix is put
// together over all ranks, made orthogonal by one of them, in turn by size, and shared out again.
std::unique_ptr<UpdateRule> make_muon(const OptimizerOptions& options, UpdateRanks ranks);

}  // namespace trireme
