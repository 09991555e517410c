#include "parallel/optimizer/lr_schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "model/base/error.h"

namespace trireme {
namespace {

double linear_decay(double progress) {
  return 1 - progress;
}

double cosine_decay(double progress) {
  return 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

double sqrt_decay(double progress) {
  return 1 - std::sqrt(progress);
}

// Megatron-LM's, shifted to end at 0: 2^(1 - progress) - 1.
double exponential_decay(double progress) {
  return 2 * std::pow(0.5, progress) - 1;
}

constexpr std::array kDecays{LrDecay{"linear", linear_decay}, LrDecay{"cosine", cosine_decay},
                             LrDecay{"sqrt", sqrt_decay},
                             LrDecay{"exponential", exponential_decay}};

// From the peak in step `from` to min_lr_factor in the last step.
double decayed(const LrScheduleOptions& options, double (*curve)(double), double from, double step,
               double total_steps) {
  if (step <= from) return 1;
  const double progress = std::min((step - from) / std::max(total_steps - from, 1.0), 1.0);
  return options.min_lr_factor + (1 - options.min_lr_factor) * curve(progress);
}

// Loshchilov and Hutter 2017.
double cosine(const LrScheduleOptions& options, double step, double total_steps) {
  return decayed(options, cosine_decay, static_cast<double>(options.warmup_steps), step,
                 total_steps);
}

double linear(const LrScheduleOptions& options, double step, double total_steps) {
  return decayed(options, linear_decay, static_cast<double>(options.warmup_steps), step,
                 total_steps);
}

double constant(const LrScheduleOptions&, double /*step*/, double /*total_steps*/) {
  return 1;
}

// Warmup-stable-decay (Hu et al. 2024): constant, then decay_type over the last decay_ratio of the
// steps.
double warmup_stable_decay(const LrScheduleOptions& options, double step, double total_steps) {
  const auto* const decay = std::find_if(kDecays.begin(), kDecays.end(), [&](const LrDecay& one) {
    return options.decay_type == one.name;
  });
  require(decay != kDecays.end(), "unknown decay ", options.decay_type);
  const double from = std::max(static_cast<double>(options.warmup_steps),
                               std::floor(total_steps * (1 - options.decay_ratio)));
  return decayed(options, decay->at, from, step, total_steps);
}

// Vaswani et al. 2017: sqrt(warmup / step).
double inverse_sqrt(const LrScheduleOptions& options, double step, double /*total_steps*/) {
  const double warmup = std::max(static_cast<double>(options.warmup_steps), 1.0);
  return std::max(options.min_lr_factor, std::sqrt(warmup / step));
}

constexpr std::array kLrSchedules{
    LrSchedule{.name = "cosine", .fraction = cosine},
    LrSchedule{.name = "linear", .fraction = linear},
    LrSchedule{.name = "constant", .fraction = constant, .depends_on_length = false},
    LrSchedule{.name = "wsd", .fraction = warmup_stable_decay, .ends_in_decay = true},
    LrSchedule{.name = "inverse_sqrt", .fraction = inverse_sqrt, .depends_on_length = false}};

}  // namespace

std::span<const LrDecay> lr_decays() {
  return kDecays;
}

std::span<const LrSchedule> lr_schedules() {
  return kLrSchedules;
}

const LrSchedule& find_lr_schedule(std::string_view name) {
  for (const LrSchedule& schedule : kLrSchedules) {
    if (name == schedule.name) return schedule;
  }
  throw ConfigError(say("unknown learning-rate schedule ", name));
}

double learning_rate(const LrScheduleOptions& options, double peak, std::int64_t step,
                     std::int64_t total_steps) {
  const auto s = static_cast<double>(step);
  if (step <= options.warmup_steps) return peak * s / static_cast<double>(options.warmup_steps);
  const double fraction =
      find_lr_schedule(options.name).fraction(options, s, static_cast<double>(total_steps));
  return peak * fraction;
}

}  // namespace trireme
