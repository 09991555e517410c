#include <fmt/format.h>
#include <fmt/ranges.h>

#include "parallel/optimizer/registry.h"
#include "trainer/config/option_table.h"

namespace trireme {
namespace {

bool publishes_bfloat16(const RunConfig& c) {
  return c.training.dtype == "bfloat16" || c.training.dtype == "float8";
}

// An option that only some optimizers read: which ones and their defaults follow from the registry.
Option of_some(Option option) {
  const auto reads = [member = option.name()](const NamedOptimizer& named) {
    return named.does_read(member);
  };
  option.help =
      fmt::format("{}: {}", fmt::join(names_of(named_optimizers(), reads), ", "), option.help);
  option.effect = Effect::kNumerics;
  std::vector<std::pair<std::string, RunConfig>> variants;
  for (const NamedOptimizer& named : named_optimizers()) {
    variants.emplace_back(named.name, RunConfig()).second.optimizer = named.defaults;
  }
  option.default_text = defaults_text(option, variants);
  option.applies = [reads](const RunConfig& c) { return reads(find_optimizer(c.optimizer.name)); };
  return option;
}

void add_of_some(Options& to) {
  to.push_back(of_some({.key = "optimizer.beta1",
                        .slot = TRIREME_MEMBER(optimizer.beta1),
                        .help = "decay rate of the first moment",
                        .range = from_up_to(0, 1)}));
  to.push_back(of_some({.key = "optimizer.beta2",
                        .slot = TRIREME_MEMBER(optimizer.beta2),
                        .help = "decay rate of the second moment",
                        .range = from_up_to(0, 1)}));
  to.back().help =
      "AdamW, LAMB, Muon: decay rate of the second moment; Lion: decay rate of its momentum";
  to.push_back(of_some({.key = "optimizer.eps",
                        .slot = TRIREME_MEMBER(optimizer.eps),
                        .help = "epsilon added to the square root of the second moment",
                        .range = above(0)}));
  to.push_back(of_some({.key = "optimizer.momentum",
                        .slot = TRIREME_MEMBER(optimizer.momentum),
                        .help = "momentum coefficient",
                        .range = from_up_to(0, 1)}));
  to.push_back(of_some({.key = "optimizer.nesterov",
                        .slot = TRIREME_MEMBER(optimizer.nesterov),
                        .help = "use Nesterov momentum"}));
  to.push_back(of_some({.key = "optimizer.trust_coefficient",
                        .slot = TRIREME_MEMBER(optimizer.trust_coefficient),
                        .help = "the learning rate of a layer is multiplied by this and by the "
                                "ratio of weight norm to gradient norm",
                        .range = above(0)}));
  to.push_back(of_some({.key = "optimizer.ns_steps",
                        .slot = TRIREME_MEMBER(optimizer.ns_steps),
                        .help = "number of Newton-Schulz iterations",
                        .range = between(1, 100)}));
  to.push_back(of_some({.key = "optimizer.adjust_lr",
                        .slot = TRIREME_MEMBER(optimizer.adjust_lr),
                        .help = "scale of the update; match_rms_adamw: 0.2 * sqrt(longer side), so "
                                "that AdamW's learning rate can be reused; original: sqrt(max(1, "
                                "rows / columns))",
                        .allowed = {"match_rms_adamw", "original"}}));
  to.push_back(of_some({.key = "optimizer.adamw_lr",
                        .slot = TRIREME_MEMBER(optimizer.adamw_lr),
                        .help = "peak learning rate of AdamW for everything except the blocks' "
                                "matrices, on the same schedule; 0: optimizer.lr",
                        .range = between(0, 100)}));
}

}  // namespace

void add_optimizer(Options& to) {
  to.push_back(
      {.key = "optimizer.name",
       .slot = TRIREME_MEMBER(optimizer.name),
       .help = "optimizer; LAMB and LARS scale the learning rate per layer; Muon orthogonalizes "
               "the updates of the blocks' matrices, and AdamW updates the rest",
       .effect = Effect::kNumerics,
       .allowed = names_of(named_optimizers())});
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
  to.push_back({.key = "optimizer.decay_embeddings",
                .slot = TRIREME_MEMBER(optimizer.decay_embeddings),
                .help = "also apply weight decay to token and position embeddings, tied or not",
                .effect = Effect::kNumerics});
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
  add_of_some(to);
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
                .help = "wsd: shape of the final decay; sqrt: 1 - sqrt(progress) (Megatron-LM's "
                        "minus_sqrt); exponential: 2^(1 - progress) - 1",
                .effect = Effect::kNumerics,
                .allowed = names_of(lr_decays())});
  to.push_back({.key = "lr_scheduler.min_lr_factor",
                .slot = TRIREME_MEMBER(lr_scheduler.min_lr_factor),
                .help = "minimum learning rate as a fraction of optimizer.lr (unused by constant)",
                .effect = Effect::kNumerics,
                .range = between(0, 1)});
}

}  // namespace trireme
