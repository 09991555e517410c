#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "trainer/config/run_config.h"
#include "trainer/loop/spike_window.h"

namespace trireme {

// Decides what a step whose loss or gradients are not finite, or spike, means for the
// run ([training] on_nonfinite, on_spike). A pure function of the losses and norms seen:
// ranks that share those decide the same, and so does a run that was restarted.
class StepGuard {
 public:
  explicit StepGuard(const TrainingConfig& config);

  // What the update may apply: the gradients' norm must be finite and not above. Below
  // zero, so that nothing is, when the loss alone forbids it.
  double norm_limit(double loss) const;
  // Whether the limit can depend on a finite loss; gradients of another are not finite either.
  bool needs_loss() const { return config_.on_spike != "none"; }

  enum class Action { kStop, kSkip, kRollBack };
  struct Decision {
    Action action;
    bool spike;  // false: something is not finite
    bool tired;  // stops after too many skips and rollbacks
    std::optional<double> loss_zscore, norm_zscore;
  };
  // For an attempt at `step` that was not applied; counted.
  Decision decide(std::int64_t step, double loss, double norm);
  // For one that was.
  void accept(std::int64_t step, double loss, double norm);

  // Whether it ever asks for a rollback.
  bool rolls_back() const;
  std::int64_t skips() const { return skips_; }
  std::int64_t rollbacks() const { return rollbacks_; }

  // What a checkpoint keeps, and back; `counts` too, or only the window, for a rollback.
  // What is missing was not kept; throws nlohmann::json::exception for another type.
  void write(nlohmann::json& scalars) const;
  void read(const nlohmann::json& scalars, bool counts);

 private:
  TrainingConfig config_;
  SpikeWindow losses_, norms_;
  std::int64_t skips_ = 0, rollbacks_ = 0;
  std::int64_t in_a_row_ = 0;  // without getting past `past_`
  std::int64_t past_ = 0;
};

}  // namespace trireme
