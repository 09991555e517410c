#pragma once
#include <span>
#include <string>

#include "parallel/pipeline/published.h"

namespace trireme {

// A schedule that a config can name.
struct NamedSchedule {
  const char* name;
  const char* help;  // one line
  Schedule (*make)(const PipelineShape&);
};
std::span<const NamedSchedule> named_schedules();

// The schedule called `name`, or, when it ends in .csv, the one in that file. Checked
// and fit to run: throws ConfigError for an unknown name, a file of another shape or a
// shape for which the schedule is not defined.
Schedule make_schedule(const std::string& name, const PipelineShape& shape);

}  // namespace trireme
