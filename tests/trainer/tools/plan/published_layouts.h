#pragma once
#include "tests/trainer/tools/plan/published_runs.h"

namespace trireme::published {

// The run with a rank's `sequences` of a step divided into micro-batches of `micro_batch` and with
// its layers in stages. A micro-batch or a number of virtual stages that is not published (0) is
// the fastest of those that fit, both by the planner; the smallest if none fits.
Run fastest(const Run& run, const TrainerTraits& traits, std::int64_t sequences,
            std::int64_t micro_batch, std::int64_t virtual_stages);

}  // namespace trireme::published
