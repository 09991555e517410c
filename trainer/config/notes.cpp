#include "trainer/config/notes.h"

#include "model/base/error.h"
#include "trainer/config/sequence_length.h"

namespace trireme {
namespace {

// About the sequences of one length.
std::vector<std::string> sequence_notes(const RunConfig& config) {
  std::vector<std::string> notes;
  const ModelConfig& model = config.model;
  if (model.position == PositionKind::kRotary &&
      model.max_position_embeddings < config.training.seq_len) {
    notes.push_back(say("model.max_position_embeddings = ", model.max_position_embeddings,
                        " is below training.seq_len = ", config.training.seq_len,
                        ": the model trains at the longer length, but trireme generate and other "
                        "programs limit its context to it; increase it"));
  }
  const RopeScaling& scaling = model.rope_scaling;
  const double reach =
      scaling.factor * static_cast<double>(scaling.original_max_position_embeddings);
  if (scaling.type == RopeScaling::Type::kYarn && scaling.original_max_position_embeddings > 0 &&
      reach < static_cast<double>(config.training.seq_len)) {
    notes.push_back(say("model.rope_scaling extends ", scaling.original_max_position_embeddings,
                        " positions by factor = ", scaling.factor, " to ", reach,
                        ", below training.seq_len = ", config.training.seq_len,
                        "; increase factor"));
  }
  if (model.sliding_window >= config.training.seq_len && model.sliding_window > 0) {
    notes.push_back(say("model.sliding_window = ", model.sliding_window,
                        " is not below training.seq_len = ", config.training.seq_len,
                        ": all layers train with full attention"));
  }
  return notes;
}

}  // namespace

std::vector<std::string> config_notes(const RunConfig& config) {
  std::vector<std::string> notes;
  const std::int64_t warmup = config.lr_scheduler.warmup_steps;
  const bool has_length = config.training.steps > 0 || config.training.tokens > 0;
  if (has_length && warmup > total_steps(config)) {
    notes.push_back(say("lr_scheduler.warmup_steps = ", warmup, " is longer than the run of ",
                        total_steps(config),
                        " steps: the learning rate never reaches optimizer.lr"));
  }
  for (const SequenceLength& length : sequence_lengths(config)) {
    for (const std::string& note : sequence_notes(with_length(config, length))) {
      notes.push_back(length.from_step == 1
                          ? note
                          : say("data.stages: from step ", length.from_step, ": ", note));
    }
  }
  return notes;
}

}  // namespace trireme
