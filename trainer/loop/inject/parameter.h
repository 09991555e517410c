#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/params/param_store.h"
#include "parallel/comm/launcher.h"
#include "parallel/comm/team.h"

namespace trireme::inject {

// Where to inject: the first element that a rank owns of a parameter, at a step.
//   "step=5 rank=1 parameter=layers.0.mlp.up.weight KEY=VALUE once=FILE"
// `once` may be omitted; with it, a restarted run does not inject again.
struct ParameterTarget {
  const char* variable = "";  // of the environment
  std::string text;           // its value
  std::int64_t step = 0, rank = 0;
  std::string parameter;
  std::string value;  // of KEY
  std::filesystem::path once;

  // Nothing unless each key occurs once, no other key does, and the first three are valid.
  static std::optional<ParameterTarget> parse(const char* variable, const std::string& text,
                                              const char* key);

  // Throws ConfigError unless `whole`, the full model, has the parameter, and, on the target rank,
  // unless `held` owns a shard of it. Returns a warning where the world lacks the target rank, so
  // that nothing is injected: a run may shrink.
  std::string check(const ParamStore& whole, const ParamStore& held, int own_rank, int ranks) const;
  // The target shard; null when this rank owns nothing of the parameter.
  const ParamShard* find(const ParamStore& held) const;
};

// Overwrites one gradient of one rank once, the first time the process reaches the step, to test
// training.on_nonfinite and on_spike.
//   TRIREME_INJECT_GRADIENT="step=5 rank=1 parameter=layers.0.mlp.up.weight value=nan"
class GradientInjection {
 public:
  static constexpr const char* kVariable = "TRIREME_INJECT_GRADIENT";

  // Nothing when the variable is not set. Throws ConfigError.
  static std::optional<GradientInjection> from(const Variables& variables);

  const ParameterTarget& target() const { return target_; }
  // To be called when the step's gradients are complete.
  void apply(Stream& stream, const ParamStore& held, int rank, std::int64_t step);

 private:
  GradientInjection(ParameterTarget target, double value)
      : target_(std::move(target)), value_(value) {}
  ParameterTarget target_;
  double value_;
  bool done_ = false;
};

// Flips one bit of a weight's float32 master on one rank, once, after the update of the step, as
// silent data corruption does, to test elastic.replica_check_interval. Bit 0 is the lowest.
//   TRIREME_INJECT_WEIGHT="step=5 rank=1 parameter=layers.0.mlp.up.weight bit=20 once=FILE"
class WeightInjection {
 public:
  static constexpr const char* kVariable = "TRIREME_INJECT_WEIGHT";

  // Nothing when the variable is not set. Throws ConfigError.
  static std::optional<WeightInjection> from(const Variables& variables);

  const ParameterTarget& target() const { return target_; }
  // To be called after the step's update.
  void apply(Stream& stream, const ParamStore& held, int rank, std::int64_t step);

 private:
  WeightInjection(ParameterTarget target, int bit) : target_(std::move(target)), bit_(bit) {}
  ParameterTarget target_;
  int bit_;
  bool done_ = false;
};

// What the environment asks to inject into a run's parameters.
struct ParameterInjections {
  std::optional<GradientInjection> gradient;
  std::optional<WeightInjection> weight;

  // Throws ConfigError.
  static ParameterInjections from(const Variables& variables);
  std::vector<const ParameterTarget*> targets() const;
  // Collective. Throws ConfigError for a target that does not exist; logs those without effect.
  void check(const ParamStore& whole, const ParamStore& held, const Team& team) const;
};

}  // namespace trireme::inject
