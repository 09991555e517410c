#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "parallel/pipeline/published.h"

namespace trireme {

// A schedule that can be named in the config, and what it needs and does.
struct NamedSchedule {
  const char* name;
  Schedule (*make)(const PipelineShape&);
  bool has_virtual_stages = false;  // at least two stages per rank; otherwise one
  bool needs_whole_rounds = false;  // micro-batches in multiples of the ranks
  // Weight gradients of a micro-batch are computed apart from its backward.
  bool defers_weight_gradients = false;
  double bubble_divisor = 1;  // of the bubble of 1F1B with as many virtual stages
  bool is_searched = true;    // by the planner; false if another schedule is never worse

  bool supports_stages(std::int64_t per_rank) const { return (per_rank > 1) == has_virtual_stages; }
  std::int64_t micro_batch_multiple(std::int64_t ranks) const {
    return needs_whole_rounds ? ranks : 1;
  }
};
std::span<const NamedSchedule> named_schedules();
// Null for other names and for files.
const NamedSchedule* find_schedule(std::string_view name);
// The schedule to use instead of one that does not support so many stages per rank.
const NamedSchedule& schedule_for_stages(std::int64_t per_rank);

// The schedule called `name`, or read from the file `name` if it ends in .csv. Checked and ready to
// run: throws ConfigError for an unknown name, for a file of a different shape, and for a shape
// that the schedule does not support.
Schedule make_schedule(const std::string& name, const PipelineShape& shape);

}  // namespace trireme
