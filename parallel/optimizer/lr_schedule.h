#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// The [lr_scheduler] section of a config.
struct LrScheduleOptions {
  std::string name = "cosine";  // of lr_schedules()
  std::int64_t warmup_steps = 0;
  double decay_ratio = 0.2;           // wsd: fraction of steps with decay
  std::string decay_type = "linear";  // wsd: of lr_decays()
  double min_lr_factor = 0.1;         // final over peak learning rate

  bool operator==(const LrScheduleOptions&) const = default;
};

// A decay's curve: 1 at progress 0, 0 at progress 1.
struct LrDecay {
  const char* name;
  double (*at)(double progress);
};
std::span<const LrDecay> lr_decays();

// A schedule after its warmup.
struct LrSchedule {
  const char* name;
  // Fraction of the peak in `step`, which is after the warmup; of a run of `total_steps`.
  double (*fraction)(const LrScheduleOptions& options, double step, double total_steps);
  bool depends_on_length = true;  // on total_steps
  bool ends_in_decay = false;     // of decay_ratio and decay_type
};
std::span<const LrSchedule> lr_schedules();
// Throws ConfigError for an unknown name.
const LrSchedule& find_lr_schedule(std::string_view name);

// The learning rate of `step`, counted from 1: linear warmup to `peak`, then the named schedule,
// not below min_lr_factor * peak. A pure function.
double learning_rate(const LrScheduleOptions& options, double peak, std::int64_t step,
                     std::int64_t total_steps);

}  // namespace trireme
