#pragma once
#include <cstdint>
#include <string>

namespace trireme {

// The [optimizer] section of a config. Which optimizers read which members, and their other
// defaults, are in registry.cpp.
struct OptimizerOptions {
  std::string name = "AdamW";  // of named_optimizers()
  double lr = 3e-4;            // at the end of warmup
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;     // of what decays: weight_decay_of()
  bool decay_embeddings = true;  // weight decay of the tables of tokens and positions
  double momentum = 0.9;
  bool nesterov = false;
  double trust_coefficient = 0.001;
  std::int64_t ns_steps = 5;                  // Newton-Schulz iterations
  std::string adjust_lr = "match_rms_adamw";  // or original
  double adamw_lr = 0;                        // of parameters that Muon does not update; 0: lr
  std::string state_dtype = "float32";        // or bfloat16
  bool stochastic_rounding = false;           // of the published weights
  bool offload = false;                       // master weights and state in pinned host memory

  bool has_bfloat16_state() const { return state_dtype == "bfloat16"; }
  bool operator==(const OptimizerOptions&) const = default;
};

}  // namespace trireme
