#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace trireme {

// The sequences of a run from a step on. Llama 3 (Dubey et al. 2024, section 3.4.2) lengthens them
// this way at the end of its pretraining.
struct SequenceLength {
  std::int64_t from_step = 1;      // without exclusions
  std::uint64_t first_sample = 0;  // of the training order: with exclusions too
  std::int64_t seq_len = 0;
  RopeScaling rope_scaling = {};
};

// In ascending order of their steps: training.seq_len and model.rope_scaling from step 1 on, then
// each change by data.stages.
std::vector<SequenceLength> sequence_lengths(const RunConfig& config);
// The longest of them, in tokens.
std::int64_t longest_seq_len(const RunConfig& config);
// The one of a sample.
const SequenceLength& length_of(const std::vector<SequenceLength>& all, std::uint64_t sample);

// Total of all steps before `step`, without exclusions. A step has as many sequences as
// batch_size.h says, whatever their length.
std::int64_t tokens_before_step(const RunConfig& config, std::int64_t step);
// The step that is trained on the token of an index, from 0, without exclusions.
std::int64_t step_of_token(const RunConfig& config, std::int64_t token);

// The config of a run of as many steps, all of which have such sequences. A max_position_embeddings
// of rotary positions that equals training.seq_len follows it.
RunConfig with_length(const RunConfig& config, const SequenceLength& length);

// "sequences: 1,024 tokens from step 1 on, 4,096 tokens from step 101 on".
std::string lengths_text(const RunConfig& config);

}  // namespace trireme
