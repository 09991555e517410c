#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "model/params/param_store.h"
#include "parallel/comm/launcher.h"

namespace trireme {

// A drill for [training] on_nonfinite and on_spike: one gradient of one rank is damaged
// once, the first time the process comes to the step.
//   TRIREME_INJECT_GRADIENT="step=5 rank=1 parameter=layers.0.mlp.up.weight value=nan"
class GradientDrill {
 public:
  static constexpr const char* kVariable = "TRIREME_INJECT_GRADIENT";

  // Nothing when the variable is not set. Throws ConfigError.
  static std::optional<GradientDrill> from(const Variables& variables);

  // Throws ConfigError unless there are so many ranks and `whole`, all of the model,
  // has the parameter; on the rank in question also unless `held` has a part of it.
  void check(const ParamStore& whole, const ParamStore& held, int rank, int ranks) const;
  // To be called when the step's gradients are complete.
  void strike(Stream& stream, const ParamStore& held, int rank, std::int64_t step);

  const std::string& text() const { return text_; }

 private:
  explicit GradientDrill(std::string text);
  std::string text_;
  std::int64_t step_ = 0, rank_ = 0;
  std::string parameter_;
  double value_ = 0;
  bool done_ = false;
};

}  // namespace trireme
