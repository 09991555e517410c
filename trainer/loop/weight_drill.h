#pragma once
#include <cstdint>
#include <optional>

#include "parallel/comm/launcher.h"
#include "trainer/loop/drill_target.h"

namespace trireme {

// A drill for elastic.replica_check_interval: one bit of a weight's master is flipped on one
// rank, once, after the update of the step, as a memory or a processor does it that fails
// silently. Bit 0 is the least; the masters are float32.
//   TRIREME_INJECT_WEIGHT="step=5 rank=1 parameter=layers.0.mlp.up.weight bit=20 once=FILE"
class WeightDrill {
 public:
  static constexpr const char* kVariable = "TRIREME_INJECT_WEIGHT";

  // Nothing when the variable is not set. Throws ConfigError.
  static std::optional<WeightDrill> from(const Variables& variables);

  const DrillTarget& target() const { return target_; }
  // To be called when the step is done.
  void strike(Stream& stream, const ParamStore& held, int rank, std::int64_t step);

 private:
  WeightDrill(DrillTarget target, int bit) : target_(std::move(target)), bit_(bit) {}
  DrillTarget target_;
  int bit_;
  bool done_ = false;
};

}  // namespace trireme
