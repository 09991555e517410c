#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>

#include "trainer/config/run_config.h"

namespace trireme {

// What a float16 run multiplies its loss by, so that gradients which float16 would round to zero
// stay in its range: halved when they leave that at its upper end, doubled after
// training.loss_scale_growth_interval good steps (Micikevicius et al. 2018). A power of two. The
// step that overflowed is tried again with the same samples: none is skipped. A pure function of
// the losses and norms seen, as StepGuard is; in other dtypes the scale is 1 for good.
class LossScaler {
 public:
  explicit LossScaler(const TrainingConfig& config);

  bool scales() const { return scales_; }
  double scale() const { return static_cast<double>(scale_); }
  // Attempts that were tried again, over the whole run.
  std::int64_t overflows() const { return overflows_; }

  // Whether an attempt that was not applied asks for a smaller scale: its gradients are not finite
  // although its loss is, and there is a smaller one.
  bool answers(double loss, double norm) const;
  // After such an attempt, and after a step that was applied.
  void halve();
  void accept();

  // What a checkpoint keeps, and back; the count of overflows too, or, for a rollback, not.
  // What is missing was not kept; throws nlohmann::json::exception for another type.
  void write(nlohmann::json& scalars) const;
  void read(const nlohmann::json& scalars, bool counts);

 private:
  bool scales_;
  std::int64_t scale_, interval_;
  std::int64_t good_ = 0;  // steps since the scale changed
  std::int64_t overflows_ = 0;
};

}  // namespace trireme
