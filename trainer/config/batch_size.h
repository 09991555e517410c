#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace trireme {

inline constexpr const char* kRampupKey = "training.rampup_batch_size";

// How many sequences the steps train on: training.global_batch_size, or what rampup_batch_size
// has for them until it has come to that. Pure functions of the config, so that where a run is in
// its data follows from its step. Steps and the sequences' places count from 1 and from 0.
std::int64_t sequences_of_step(const TrainingConfig& training, std::int64_t step);
// In the steps before it, were none left out.
std::int64_t sequences_before_step(const TrainingConfig& training, std::int64_t step);
// The step that the sequence at a place belongs to, were none left out.
std::int64_t step_of_sequence(const TrainingConfig& training, std::int64_t place);

// The sizes of the steps, rising; the last is global_batch_size.
std::vector<std::int64_t> batch_sizes(const TrainingConfig& training);

// "sequences in a step: 64 from step 1 on, 128 from step 1001 on", of a ramp.
std::string ramp_text(const TrainingConfig& training);

// As microbatches(config), in that step; and in steps of each of the sizes.
std::int64_t microbatches_of_step(const RunConfig& config, std::int64_t step);
std::vector<std::int64_t> micro_batch_counts(const RunConfig& config);

}  // namespace trireme
