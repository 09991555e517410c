#include "trainer/engine/optimizer_options.h"

namespace trireme {

OptimizerOptions optimizer_options(const RunConfig& config) {
  const OptimizerConfig& how = config.optimizer;
  return {.name = how.name,
          .beta1 = how.beta1,
          .beta2 = how.beta2,
          .epsilon = how.eps,
          .weight_decay = how.weight_decay,
          .momentum = how.momentum,
          .nesterov = how.nesterov,
          .trust_coefficient = how.trust_coefficient,
          .newton_schulz_steps = how.ns_steps,
          .muon_adjust_lr = how.adjust_lr,
          .muon_adamw_lr_ratio = how.adamw_lr > 0 ? how.adamw_lr / how.lr : 1,
          .bfloat16_state = how.state_dtype == "bfloat16",
          .stochastic_rounding = how.stochastic_rounding,
          .seed = static_cast<std::uint64_t>(config.job.seed)};
}

}  // namespace trireme
