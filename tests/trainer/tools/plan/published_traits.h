#pragma once
#include <string>

#include "tests/trainer/tools/plan/published_runs.h"

namespace trireme::published {

// By the words in which the run's recomputation is published, and by its trainer's own options.
Recomputed recomputed_by(const Run& run);

// What the sources say of the programs: which messages they hide, what they fuse and what they
// send. Sets what of it is in the run's workload.
TrainerTraits set_traits(Run& run, const std::string& precision);

}  // namespace trireme::published
