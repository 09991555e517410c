#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "trainer/config/option_table.h"

namespace trireme {
namespace {

bool is_optimizer(const RunConfig& c, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), c.optimizer.name) != names.end();
}
bool has_betas(const RunConfig& c) {
  return is_optimizer(c, {"AdamW", "Lion", "LAMB", "Muon"});
}
bool has_eps(const RunConfig& c) {
  return is_optimizer(c, {"AdamW", "LAMB", "Muon"});
}
bool has_momentum(const RunConfig& c) {
  return is_optimizer(c, {"SGD", "LARS", "Muon"});
}
bool may_be_nesterov(const RunConfig& c) {
  return is_optimizer(c, {"SGD", "Muon"});
}
bool is_lars(const RunConfig& c) {
  return is_optimizer(c, {"LARS"});
}
bool is_muon(const RunConfig& c) {
  return is_optimizer(c, {"Muon"});
}
bool publishes_bfloat16(const RunConfig& c) {
  return c.training.dtype == "bfloat16" || c.training.dtype == "float8";
}

void add_moments(Options& to) {
  to.push_back({.key = "optimizer.beta1",
                .slot = TRIREME_MEMBER(optimizer.beta1),
                .help = "AdamW, Lion, LAMB, Muon: decay rate of the first moment",
                .effect = Effect::kNumerics,
                .range = from_up_to(0, 1),
                .applies = has_betas});
  to.push_back(
      {.key = "optimizer.beta2",
       .slot = TRIREME_MEMBER(optimizer.beta2),
       .help =
           "AdamW, LAMB, Muon: decay rate of the second moment; Lion: decay rate of its momentum",
       .effect = Effect::kNumerics,
       .range = from_up_to(0, 1),
       .default_text = "Lion: 0.99; LAMB: 0.999; else 0.95",
       .applies = has_betas});
  to.push_back({.key = "optimizer.eps",
                .slot = TRIREME_MEMBER(optimizer.eps),
                .help = "AdamW, LAMB, Muon: epsilon added to the square root of the second moment",
                .effect = Effect::kNumerics,
                .range = above(0),
                .default_text = "LAMB: 1e-6; else 1e-8",
                .applies = has_eps});
  to.push_back({.key = "optimizer.momentum",
                .slot = TRIREME_MEMBER(optimizer.momentum),
                .help = "SGD, LARS, Muon: momentum coefficient",
                .effect = Effect::kNumerics,
                .range = from_up_to(0, 1),
                .default_text = "Muon: 0.95; else 0.9",
                .applies = has_momentum});
  to.push_back({.key = "optimizer.nesterov",
                .slot = TRIREME_MEMBER(optimizer.nesterov),
                .help = "SGD, Muon: use Nesterov momentum",
                .effect = Effect::kNumerics,
                .default_text = "Muon: true; else false",
                .applies = may_be_nesterov});
}

void add_lars(Options& to) {
  to.push_back({.key = "optimizer.trust_coefficient",
                .slot = TRIREME_MEMBER(optimizer.trust_coefficient),
                .help = "LARS: the learning rate of a layer is multiplied by this and by the ratio "
                        "of weight norm to gradient norm",
                .effect = Effect::kNumerics,
                .range = above(0),
                .applies = is_lars});
}

void add_muon(Options& to) {
  to.push_back({.key = "optimizer.ns_steps",
                .slot = TRIREME_MEMBER(optimizer.ns_steps),
                .help = "Muon: number of Newton-Schulz iterations",
                .effect = Effect::kNumerics,
                .range = between(1, 100),
                .applies = is_muon});
  to.push_back({.key = "optimizer.adjust_lr",
                .slot = TRIREME_MEMBER(optimizer.adjust_lr),
                .help =
                    "Muon: scale of the update; match_rms_adamw: 0.2 * sqrt(longer side), so that "
                    "AdamW's learning rate can be reused; original: sqrt(max(1, rows / columns))",
                .effect = Effect::kNumerics,
                .allowed = {"match_rms_adamw", "original"},
                .applies = is_muon});
  to.push_back({.key = "optimizer.adamw_lr",
                .slot = TRIREME_MEMBER(optimizer.adamw_lr),
                .help = "Muon: peak learning rate of AdamW for everything except the blocks' "
                        "matrices, on the same schedule; 0: optimizer.lr",
                .effect = Effect::kNumerics,
                .range = between(0, 100),
                .applies = is_muon});
}

}  // namespace

void add_optimizer(Options& to) {
  to.push_back(
      {.key = "optimizer.name",
       .slot = TRIREME_MEMBER(optimizer.name),
       .help = "optimizer; LAMB and LARS scale the learning rate per layer; Muon orthogonalizes "
               "the updates of the blocks' matrices, and AdamW updates the rest",
       .effect = Effect::kNumerics,
       .allowed = {"AdamW", "SGD", "Lion", "LAMB", "LARS", "Muon"}});
  to.push_back({.key = "optimizer.lr",
                .slot = TRIREME_MEMBER(optimizer.lr),
                .help = "peak learning rate, reached at the end of warmup",
                .effect = Effect::kNumerics,
                .range = {.least = 0, .most = 100, .above = true}});
  to.push_back(
      {.key = "optimizer.weight_decay",
       .slot = TRIREME_MEMBER(optimizer.weight_decay),
       .help = "weight decay, of matrices only; decoupled, but SGD and LARS add it to the gradient",
       .effect = Effect::kNumerics,
       .range = between(0, 100)});
  to.push_back({.key = "optimizer.state_dtype",
                .slot = TRIREME_MEMBER(optimizer.state_dtype),
                .help = "dtype of the stored moments; bfloat16 is rounded stochastically",
                .effect = Effect::kNumerics,
                .allowed = {"float32", "bfloat16"}});
  to.push_back({.key = "optimizer.stochastic_rounding",
                .slot = TRIREME_MEMBER(optimizer.stochastic_rounding),
                .help = "round bfloat16 weights stochastically from the float32 master weights",
                .effect = Effect::kNumerics,
                .applies = publishes_bfloat16});
  to.push_back({.key = "optimizer.offload",
                .slot = TRIREME_MEMBER(optimizer.offload),
                .help = "keep master weights and moments in pinned host memory and stream them "
                        "through the GPU during the update",
                .effect = Effect::kPerformance});
  add_moments(to);
  add_lars(to);
  add_muon(to);
}

void add_lr_scheduler(Options& to) {
  to.push_back({.key = "lr_scheduler.name",
                .slot = TRIREME_MEMBER(lr_scheduler.name),
                .help = "learning-rate schedule after warmup; wsd: warmup-stable-decay",
                .effect = Effect::kNumerics,
                .allowed = names_of(lr_schedules())});
  to.push_back({.key = "lr_scheduler.warmup_steps",
                .slot = TRIREME_MEMBER(lr_scheduler.warmup_steps),
                .help = "steps of linear warmup from 0 to optimizer.lr",
                .effect = Effect::kNumerics,
                .range = between(0, 1e12),
                .unit = "steps"});
  to.push_back({.key = "lr_scheduler.decay_ratio",
                .slot = TRIREME_MEMBER(lr_scheduler.decay_ratio),
                .help = "wsd: fraction of all steps that the final decay takes",
                .effect = Effect::kNumerics,
                .range = between(0, 1)});
  to.push_back({.key = "lr_scheduler.decay_type",
                .slot = TRIREME_MEMBER(lr_scheduler.decay_type),
                .help = "wsd: shape of the final decay",
                .effect = Effect::kNumerics,
                .allowed = names_of(lr_decays())});
  to.push_back({.key = "lr_scheduler.min_lr_factor",
                .slot = TRIREME_MEMBER(lr_scheduler.min_lr_factor),
                .help = "minimum learning rate as a fraction of optimizer.lr (unused by constant)",
                .effect = Effect::kNumerics,
                .range = between(0, 1)});
}

}  // namespace trireme
