#pragma once
#include <span>
#include <string>

#include "parallel/pipeline/published.h"

namespace trireme {

// A schedule that can be named in the config.
struct NamedSchedule {
  const char* name;
  Schedule (*make)(const PipelineShape&);
};
std::span<const NamedSchedule> named_schedules();

// The schedule called `name`, or read from the file `name` if it ends in .csv. Checked and ready to
// run: throws ConfigError for an unknown name, for a file of a different shape, and for a shape
// that the schedule does not support.
Schedule make_schedule(const std::string& name, const PipelineShape& shape);

}  // namespace trireme
