#include "parallel/pipeline/registry.h"

#include <algorithm>
#include <array>

#include "model/base/error.h"
#include "parallel/pipeline/check.h"
#include "parallel/pipeline/schedule_file.h"

namespace trireme {
namespace {

constexpr std::array kSchedules{NamedSchedule{.name = "1F1B", .make = one_forward_one_backward},
                                NamedSchedule{.name = "GPipe", .make = gpipe, .is_searched = false},
                                NamedSchedule{.name = "Interleaved1F1B",
                                              .make = interleaved_one_forward_one_backward,
                                              .has_virtual_stages = true,
                                              .needs_whole_rounds = true},
                                NamedSchedule{.name = "ZBH1",
                                              .make = zero_bubble_h1,
                                              .defers_weight_gradients = true,
                                              .bubble_divisor = 3}};

// One stage per rank is any schedule's plain form.
void require_supported(const NamedSchedule& named, const PipelineShape& shape) {
  if (shape.virtual_stages == 1) return;
  if (!named.supports_stages(shape.virtual_stages)) {
    throw ConfigError(say("schedule ", named.name,
                          " has one stage per rank, but virtual_stages is ", shape.virtual_stages,
                          ": set it to 1, or use ",
                          schedule_for_stages(shape.virtual_stages).name));
  }
  const std::int64_t multiple = named.micro_batch_multiple(shape.ranks);
  if (const std::int64_t over = shape.micro_batches % multiple; over != 0) {
    const std::int64_t less = shape.micro_batches - over;
    throw ConfigError(
        say("schedule ", named.name, " needs micro-batches in multiples of pipeline = ", multiple,
            ", but a step has ", shape.micro_batches,
            ": change training.global_batch_size or training.local_batch_size so that a step has ",
            less > 0 ? say(less, " or ") : "", less + multiple));
  }
}

}  // namespace

std::span<const NamedSchedule> named_schedules() {
  return kSchedules;
}

const NamedSchedule* find_schedule(std::string_view name) {
  const auto found = std::find_if(kSchedules.begin(), kSchedules.end(),
                                  [&](const NamedSchedule& named) { return name == named.name; });
  return found == kSchedules.end() ? nullptr : &*found;
}

const NamedSchedule& schedule_for_stages(std::int64_t per_rank) {
  return *std::find_if(kSchedules.begin(), kSchedules.end(),
                       [&](const NamedSchedule& named) { return named.supports_stages(per_rank); });
}

Schedule make_schedule(const std::string& name, const PipelineShape& shape) {
  if (name.ends_with(".csv")) return read_schedule(name, shape);
  if (const NamedSchedule* named = find_schedule(name)) {
    require_supported(*named, shape);
    Schedule schedule = named->make(shape);
    const std::string wrong = complaint(schedule);
    require(wrong.empty(), "schedule ", name, ": ", wrong);
    return schedule;
  }
  std::string known;
  for (const NamedSchedule& named : kSchedules) known += say(named.name, ", ");
  throw ConfigError(
      say("unknown schedule \"", name, "\": use one of ", known, "or a file FILE.csv"));
}

}  // namespace trireme
