#include "trainer/loop/loss_scaler.h"

#include <algorithm>
#include <cmath>

namespace trireme {

LossScaler::LossScaler(const TrainingConfig& config)
    : scales_(config.dtype == "float16"),
      scale_(scales_ ? config.loss_scale_init : 1),
      interval_(config.loss_scale_growth_interval) {}

bool LossScaler::is_overflow(double loss, double norm) const {
  return scales_ && scale_ > 1 && std::isfinite(loss) && !std::isfinite(norm);
}

void LossScaler::halve() {
  scale_ /= 2;
  good_ = 0;
  ++overflows_;
}

void LossScaler::accept() {
  if (!scales_ || ++good_ < interval_) return;
  scale_ = std::min(2 * scale_, kMostLossScale);
  good_ = 0;
}

void LossScaler::write(nlohmann::json& scalars) const {
  if (!scales_) return;
  scalars["loss_scale"] = {{"scale", scale_}, {"good_steps", good_}, {"overflows", overflows_}};
}

void LossScaler::read(const nlohmann::json& scalars, bool counts) {
  if (!scales_ || !scalars.contains("loss_scale")) return;
  const nlohmann::json& kept = scalars["loss_scale"];
  scale_ = std::clamp<std::int64_t>(kept.at("scale").get<std::int64_t>(), 1, kMostLossScale);
  good_ = kept.at("good_steps").get<std::int64_t>();
  if (counts) overflows_ = kept.at("overflows").get<std::int64_t>();
}

}  // namespace trireme
