#pragma once
#include <string>

#include "parallel/pipeline/published.h"

namespace trireme {

// Schedules in the CSV format of PyTorch (torch.distributed.pipelining, "compute_only") and
// torchtitan (pipeline_parallel_schedule_csv): one row per rank in order, one cell per action, such
// as 0F0, 1B3, 2I1 or 3W0: stage, then F, B, I or W, then micro-batch. Empty cells are idle steps
// and are ignored.

// Reads and checks a schedule of `shape`; stages may be on any ranks. ConfigError names file, row
// and cell.
Schedule read_schedule(const std::string& path, const PipelineShape& shape);

// Parses the text of a file; `name` is used in messages. The numbers of stages and micro-batches
// are inferred from the cells; only the syntax is checked.
Schedule parse_schedule(const std::string& text, const std::string& name);

}  // namespace trireme
