#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace trireme {

// The newest accepted values of a curve, and the z-score of the next one. The standard deviation is
// floored at 1 % of the mean, so that noise on a flat curve is no spike. The values are summed
// again each time, in order, so that a resumed run decides the same.
class SpikeWindow {
 public:
  explicit SpikeWindow(std::size_t size) : size_(size) {}

  void add(double value);
  // The value with this z-score; infinity until the window is full.
  double limit(double zscore) const;
  // Nothing until the window is full.
  std::optional<double> zscore(double value) const;

  std::vector<double> values() const { return {values_.begin(), values_.end()}; }  // oldest first

 private:
  struct Moments {
    double mean, deviation;
  };
  std::optional<Moments> moments() const;

  std::size_t size_;
  std::deque<double> values_;
};

// Decides what follows a step whose loss or gradients are not finite, or spike ([training]
// on_nonfinite, on_spike). A pure function of the losses, norms and expert loads seen, so that all
// ranks and resumed runs decide the same. An expert load is that of the busiest expert over the
// mean, in the layer where it is highest; nothing without experts.
class StepGuard {
 public:
  explicit StepGuard(const TrainingConfig& config);

  // The largest gradient norm that the update may apply. Negative, so that nothing is applied, if
  // the loss is not finite, or loss or expert load spike.
  double norm_limit(double loss, std::optional<double> expert_load = {}) const;
  // Whether norm_limit depends on a finite loss. (A non-finite loss has non-finite gradients.)
  bool needs_loss() const { return config_.on_spike != "none"; }

  enum class Action { kStop, kSkip, kRollBack };
  struct Decision {
    Action action;
    bool spike;      // false: something is not finite
    bool exhausted;  // too many skips and rollbacks in a row
    std::optional<double> loss_zscore, norm_zscore, load_zscore;
  };
  // For an attempt at `step` that was not applied; counts it.
  Decision decide(std::int64_t step, double loss, double norm,
                  std::optional<double> expert_load = {});
  // For an applied one.
  void accept(std::int64_t step, double loss, double norm, std::optional<double> expert_load = {});

  // Whether it may ask for a rollback.
  bool rolls_back() const;
  std::int64_t skips() const { return skips_; }
  std::int64_t rollbacks() const { return rollbacks_; }

  // The part of a checkpoint. `counts`: read the counts too; a rollback keeps them and reads only
  // the window. Missing keys are defaults; throws nlohmann::json::exception for a wrong type.
  void write(nlohmann::json& scalars) const;
  void read(const nlohmann::json& scalars, bool counts);

 private:
  TrainingConfig config_;
  SpikeWindow losses_, norms_, loads_;
  std::int64_t skips_ = 0, rollbacks_ = 0;
  std::int64_t in_a_row_ = 0;  // without a step accepted after `past_`
  std::int64_t past_ = 0;
};

}  // namespace trireme
