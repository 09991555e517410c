#include "parallel/pipeline/registry.h"

#include <array>

#include "model/base/error.h"
#include "parallel/pipeline/check.h"
#include "parallel/pipeline/schedule_file.h"

namespace trireme {
namespace {

constexpr std::array<NamedSchedule, 4> kSchedules{{
    {"GPipe", "all forwards, then all backwards", gpipe},
    {"1F1B", "one forward, one backward; lowest activation memory", one_forward_one_backward},
    {"Interleaved1F1B", "1F1B over several virtual stages per rank; smaller bubble",
     interleaved_one_forward_one_backward},
    {"ZBH1", "zero bubble H1; weight gradients fill the bubble", zero_bubble_h1},
}};

}  // namespace

std::span<const NamedSchedule> named_schedules() {
  return kSchedules;
}

Schedule make_schedule(const std::string& name, const PipelineShape& shape) {
  if (name.ends_with(".csv")) return read_schedule(name, shape);
  std::string known;
  for (const NamedSchedule& candidate : kSchedules) {
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
