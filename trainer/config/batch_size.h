#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace trireme {

inline constexpr const char* kRampupKey = "training.rampup_batch_size";

// Number of sequences of a step: training.global_batch_size, or during a ramp the value of
// rampup_batch_size. These are pure functions of the config, so the step determines the data
// position. Steps count from 1, sequence indices from 0.
std::int64_t sequences_of_step(const TrainingConfig& training, std::int64_t step);
// Total of all steps before `step`, without exclusions.
std::int64_t sequences_before_step(const TrainingConfig& training, std::int64_t step);
// The step that contains the sequence of an index, without exclusions.
std::int64_t step_of_sequence(const TrainingConfig& training, std::int64_t place);

// All batch sizes in ascending order; the last is global_batch_size.
std::vector<std::int64_t> batch_sizes(const TrainingConfig& training);

// "sequences in a step: 64 from step 1 on, 128 from step 1001 on".
std::string ramp_text(const TrainingConfig& training);

// Micro-batches of one step; of each of the batch sizes.
std::int64_t micro_batches_of_step(const RunConfig& config, std::int64_t step);
std::vector<std::int64_t> micro_batch_counts(const RunConfig& config);

}  // namespace trireme
