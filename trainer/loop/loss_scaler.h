#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>

#include "trainer/config/run_config.h"

namespace trireme {

// Dynamic loss scaling for float16 (Micikevicius et al. 2018): the scale, a power of two, is halved
// when gradients overflow and doubled after training.loss_scale_growth_interval good steps. A step
// that overflows is retried with the same samples; none is skipped. A pure function of the losses
// and norms seen, like StepGuard. In other dtypes the scale stays 1.
class LossScaler {
 public:
  explicit LossScaler(const TrainingConfig& config);

  bool scales() const { return scales_; }
  double scale() const { return static_cast<double>(scale_); }
  // Retried attempts, over the whole run.
  std::int64_t overflows() const { return overflows_; }

  // Whether an attempt that was not applied should be retried with a smaller scale: its loss is
  // finite, its gradients are not, and the scale is above 1.
  bool is_overflow(double loss, double norm) const;
  // After such an attempt, and after an accepted step.
  void halve();
  void accept();

  // The part of a checkpoint. `counts`: read the count of overflows too; a rollback keeps it.
  // Missing keys are defaults; throws nlohmann::json::exception for a wrong type.
  void write(nlohmann::json& scalars) const;
  void read(const nlohmann::json& scalars, bool counts);

 private:
  bool scales_;
  std::int64_t scale_, interval_;
  std::int64_t good_ = 0;  // steps since the scale changed
  std::int64_t overflows_ = 0;
};

}  // namespace trireme
