#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "parallel/comm/launcher.h"
#include "trainer/loop/drill_target.h"

namespace trireme {

// A drill for [training] on_nonfinite and on_spike: one gradient of one rank is damaged
// once, the first time the process comes to the step.
//   TRIREME_INJECT_GRADIENT="step=5 rank=1 parameter=layers.0.mlp.up.weight value=nan"
class GradientDrill {
 public:
  static constexpr const char* kVariable = "TRIREME_INJECT_GRADIENT";

  // Nothing when the variable is not set. Throws ConfigError.
  static std::optional<GradientDrill> from(const Variables& variables);

  const DrillTarget& target() const { return target_; }
  // To be called when the step's gradients are complete.
  void strike(Stream& stream, const ParamStore& held, int rank, std::int64_t step);

 private:
  GradientDrill(DrillTarget target, double value) : target_(std::move(target)), value_(value) {}
  DrillTarget target_;
  double value_;
  bool done_ = false;
};

}  // namespace trireme
