#include "parallel/pipeline/registry.h"

#include <array>

#include "model/base/error.h"
#include "parallel/pipeline/check.h"
#include "parallel/pipeline/schedule_file.h"

namespace trireme {
namespace {

constexpr std::array<NamedSchedule, 4> kSchedules{{
    {"GPipe", gpipe},
    {"1F1B", one_forward_one_backward},
    {"Interleaved1F1B", interleaved_one_forward_one_backward},
    {"ZBH1", zero_bubble_h1},
}};

}  // namespace

std::span<const NamedSchedule> named_schedules() {
  return kSchedules;
}

Schedule make_schedule(const std::string& name, const PipelineShape& shape) {
  if (name.ends_with(".csv")) return read_schedule(name, shape);
  std::string known;
  for (const NamedSchedule& candidate : named_schedules()) {
    if (name == candidate.name) {
      Schedule schedule = candidate.make(shape);
      const std::string wrong = complaint(schedule);
      require(wrong.empty(), "schedule ", name, ": ", wrong);
      return schedule;
    }
    known += say(candidate.name, ", ");
  }
  throw ConfigError(
      say("unknown schedule \"", name, "\": use one of ", known, "or a file FILE.csv"));
}

}  // namespace trireme
