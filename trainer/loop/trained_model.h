#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "checkpoint/format/manifest.h"
#include "data/tokenizer.h"
#include "trainer/config/override.h"
#include "trainer/config/run_config.h"
#include "trainer/engine/inference.h"

namespace trireme {

// A checkpoint, or a Hugging Face model folder, for commands that only read it.
struct TrainedModel {
  std::filesystem::path asked;   // the run folder or checkpoint the user named
  std::filesystem::path folder;  // of the checkpoint
  std::int64_t step = 0;
  RunConfig config;            // of the training run
  std::string tokenizer_hash;  // of its training data; empty: unknown
  bool average = false;        // load_weights loads the exponential average of its weights
};

// Finds the checkpoint (the newest of a run folder) or model and reads its config. `average`:
// throws CheckpointError if it has no average of its weights (training.ema). `overrides` replace
// values of its config; they must leave the shapes of its tensors alone.
TrainedModel open_trained_model(const std::filesystem::path& run_or_checkpoint,
                                bool average = false, std::span<const Override> overrides = {});

// Loads its verified weights, or their average, into `model`. If a run folder's newest checkpoint
// is damaged, warns and loads the newest good one.
void load_weights(TrainedModel& from, Inference& model);

// "bytes" or the path of the tokenizer of the run's data: from the config, else from the sidecar of
// the training data; nothing if neither names one.
std::optional<std::string> tokenizer_of(const RunConfig& config);
// The hash of the vocabulary of the training data; empty: unknown.
std::string tokenizer_hash_of(const RunConfig& config);

// The tokenizer for the model: `given`, else the run's own. Throws DataError if there is none or
// its vocabulary does not match the model's.
std::unique_ptr<data::Tokenizer> open_tokenizer_for(const TrainedModel& model,
                                                    const std::string& given);

}  // namespace trireme
