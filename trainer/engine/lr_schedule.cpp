#include "trainer/engine/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme {
namespace {

// 1 at progress 0, 0 at progress 1.
double falling(const std::string& shape, double progress) {
  if (shape == "cosine") return 0.5 * (1 + std::cos(std::numbers::pi * progress));
  if (shape == "sqrt") return 1 - std::sqrt(progress);
  return 1 - progress;
}

}  // namespace

double learning_rate(const LrSchedulerConfig& config, double peak, std::int64_t step,
                     std::int64_t total_steps) {
  const auto s = static_cast<double>(step);
  const auto warmup = static_cast<double>(config.warmup_steps);
  if (step <= config.warmup_steps) return peak * s / warmup;
  const double lowest = config.min_lr_factor;
  if (config.name == "constant") return peak;
  if (config.name == "inverse_sqrt") {
    return peak * std::max(lowest, std::sqrt(std::max(warmup, 1.0) / s));
  }
  const auto total = static_cast<double>(total_steps);
  double decay_from = warmup;
  if (config.name == "wsd")
    decay_from = std::max(warmup, std::floor(total * (1 - config.decay_ratio)));
  if (s <= decay_from) return peak;
  const double progress = std::min((s - decay_from) / std::max(total - decay_from, 1.0), 1.0);
  const double shape = falling(config.name == "wsd" ? config.decay_type : config.name, progress);
  return peak * (lowest + (1 - lowest) * shape);
}

}  // namespace trireme
