#include "trainer/config/sequence_length.h"

#include <algorithm>

#include "model/base/error.h"
#include "model/base/human.h"
#include "trainer/config/batch_size.h"

namespace trireme {

std::vector<SequenceLength> sequence_lengths(const RunConfig& config) {
  std::vector<SequenceLength> all{{1, 0, config.training.seq_len, config.model.rope_scaling}};
  for (const DataStage& stage : config.data.stages) {
    // The rules refuse stages that are not ascending.
    if (stage.from_step <= all.back().from_step) continue;
    SequenceLength next = all.back();
    next.from_step = stage.from_step;
    next.first_sample =
        static_cast<std::uint64_t>(sequences_before_step(config.training, stage.from_step));
    if (stage.seq_len > 0) next.seq_len = stage.seq_len;
    if (stage.rope_scaling) next.rope_scaling = *stage.rope_scaling;
    const bool is_same =
        next.seq_len == all.back().seq_len && next.rope_scaling == all.back().rope_scaling;
    if (!is_same) all.push_back(std::move(next));
  }
  return all;
}

std::int64_t longest_seq_len(const RunConfig& config) {
  std::int64_t longest = 0;
  for (const SequenceLength& length : sequence_lengths(config)) {
    longest = std::max(longest, length.seq_len);
  }
  return longest;
}

const SequenceLength& length_of(const std::vector<SequenceLength>& all, std::uint64_t sample) {
  const auto later = std::find_if(all.begin() + 1, all.end(), [&](const SequenceLength& length) {
    return length.first_sample > sample;
  });
  return *(later - 1);
}

std::int64_t tokens_before_step(const RunConfig& config, std::int64_t step) {
  const std::vector<SequenceLength> all = sequence_lengths(config);
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < all.size() && all[i].from_step < step; ++i) {
    const std::int64_t end = i + 1 < all.size() ? std::min(all[i + 1].from_step, step) : step;
    tokens += all[i].seq_len * (sequences_before_step(config.training, end) -
                                sequences_before_step(config.training, all[i].from_step));
  }
  return tokens;
}

std::int64_t step_of_token(const RunConfig& config, std::int64_t token) {
  const std::vector<SequenceLength> all = sequence_lengths(config);
  for (std::size_t i = 0;; ++i) {
    const std::int64_t first = sequences_before_step(config.training, all[i].from_step);
    const std::int64_t sequence = token / all[i].seq_len;
    const bool is_last = i + 1 == all.size();
    const std::int64_t count =
        is_last ? 0 : sequences_before_step(config.training, all[i + 1].from_step) - first;
    if (is_last || sequence < count) return step_of_sequence(config.training, first + sequence);
    token -= count * all[i].seq_len;
  }
}

RunConfig with_length(const RunConfig& config, const SequenceLength& length) {
  RunConfig of_step = config;
  ModelConfig& model = of_step.model;
  const bool follows = model.position == PositionKind::kRotary &&
                       model.max_position_embeddings == config.training.seq_len;
  if (follows) model.max_position_embeddings = length.seq_len;
  model.rope_scaling = length.rope_scaling;
  of_step.training.seq_len = length.seq_len;
  if (config.training.steps == 0) of_step.training.steps = total_steps(config);
  of_step.training.tokens = 0;
  for (DataStage& stage : of_step.data.stages) {
    stage.seq_len = 0;
    stage.rope_scaling.reset();
  }
  std::erase_if(of_step.data.stages, [](const DataStage& stage) { return stage.train.empty(); });
  return of_step;
}

std::string lengths_text(const RunConfig& config) {
  std::string text;
  for (const SequenceLength& length : sequence_lengths(config)) {
    text += say(text.empty() ? "sequences: " : ", ", counted(length.seq_len, "token"),
                " from step ", length.from_step, " on");
  }
  return text;
}

}  // namespace trireme
