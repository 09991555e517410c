#pragma once
#include <cstdint>

#include "model/device/stream.h"
#include "model/tensor/arena.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

inline constexpr std::int64_t kMostExperts = 512, kMostChoices = 32, kMostExpertGroups = 32;
inline constexpr std::int64_t kRouterSums = 3;  // of router_losses()

enum class RouterScore : std::uint8_t { kSoftmax, kSigmoid };

// How tokens choose experts (Shazeer et al. 2017, "Outrageously Large Neural Networks").
struct Routing {
  RouterScore score = RouterScore::kSoftmax;
  std::int64_t top_k = 1;
  bool renormalize = false;  // a token's weights are divided by their sum (norm_topk_prob)
  double scale = 1;          // of the weights
  // Group-limited (DeepSeek-AI 2024, "DeepSeek-V3"): of `groups` equal groups of consecutive
  // experts a token chooses among the `top_groups` whose two best experts have the highest sum.
  std::int64_t groups = 1, top_groups = 1;
  // For benchmarks: a token's choices are the next top_k experts after those of the token before,
  // whatever the scores, bias and groups.
  bool in_turn = false;
};

// What route() computes for `tokens` tokens and `experts` experts. Sums and scores are in the
// logits' dtype, an accumulator.
struct Routes {
  Tensor scores = {};   // [tokens, experts]
  Tensor weights = {};  // [tokens, top_k]: scores of the chosen experts, renormalized and scaled
  Tensor experts = {};  // [tokens, top_k] I32: the experts of highest score, highest first; of
                        // equal scores the one of lower index first; so too groups
};

// Chooses by the scores of logits [tokens, experts], to which `bias` [experts] F32 is added for the
// choice only, not for the weights (Wang et al. 2024, "Auxiliary-Loss-Free Load Balancing"); empty:
// no bias. NaN counts as the lowest score, so that experts are distinct and exist whatever the
// logits.
void route(Stream&, const Routes& routes, Tensor logits, const Routing& how, Tensor bias = {});

// bias [layers, experts] F32 += rate * sign(mean - count), of the counts [layers, experts] F32 of a
// layer's choices and their mean over its experts: experts that were chosen too rarely are chosen
// more often. grad_scale [1], of an accumulator dtype: if it is NaN nothing changes.
void update_router_bias(Stream&, Tensor bias, Tensor counts, Tensor grad_scale, double rate);

// Auxiliary losses of a router, whose gradients are added to those of its logits.
struct RouterLosses {
  // Load balancing (Fedus et al. 2021, "Switch Transformers"): for each group of consecutive
  // tokens, experts * sum over experts of load * mean score, where load is the group's number of
  // choices of an expert divided by its tokens. Sigmoid scores are divided by their sum over
  // experts. The loads are constants. Tokens divide into equal groups: counts.rows().
  Tensor counts = {};  // [groups, experts] F32, by count_choices(); empty: no such loss
  double balance = 0;  // weight of the sum over groups of (group's tokens * loss)
  // Router z-loss (Zoph et al. 2022, "ST-MoE"): the squared log-sum-exp of a token's logits.
  double z_loss = 0;  // weight of its sum over tokens
  Tensor scale = {};  // [1] F64, empty: 1; multiplies both weights (loss scale)
};

// counts [groups, experts] F32 = how often the tokens of a group choose an expert, of experts
// [tokens, top_k].
void count_choices(Stream&, Tensor counts, Tensor experts);

// losses [kRouterSums] F64 = sum over groups of (group's tokens * balance loss), zero without
// counts; sum over tokens of the squared log-sum-exp; sum over tokens of the entropy of the scores
// divided by their sum over experts (natural logarithm). All without weights, and summed in a fixed
// order.
void router_losses(Stream&, Arena& scratch, Tensor losses, Tensor counts, Tensor scores,
                   Tensor logits, const Routing& how);

// dlogits [tokens, experts], in any floating dtype, from the gradients dweights [tokens, top_k] of
// the weights (logits' dtype) and those of the losses.
void route_backward(Stream&, Tensor dlogits, Tensor dweights, Tensor logits, const Routes& routes,
                    const Routing& how, const RouterLosses& losses);

}  // namespace trireme::ops
