#pragma once
#include <string>

#include "parallel/pipeline/published.h"

namespace trireme {

// Schedules in the CSV form of PyTorch (torch.distributed.pipelining, "compute_only") and
// torchtitan (pipeline_parallel_schedule_csv): one row for each rank in order, one cell
// for each action, such as 0F0, 1B3, 2I1 or 3W0: stage, F, B, I or W, micro-batch.
// Empty cells are steps in which the rank waits; they mean nothing here.

// The schedule in a file: checked, and of `shape`, though the stages may stand on the
// ranks in any way. ConfigError names file, row and cell.
Schedule read_schedule(const std::string& path, const PipelineShape& shape);

void write_schedule(const std::string& path, const Schedule& schedule);

// The same without files. `name` stands for the file in messages; stages and
// micro-batches are those that the cells name, and nothing is checked but the form.
Schedule parse_schedule(const std::string& text, const std::string& name);
std::string print_schedule(const Schedule& schedule);

}  // namespace trireme
