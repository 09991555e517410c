#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/manifest.h"
#include "data/tokenizer.h"
#include "trainer/config/run_config.h"
#include "trainer/engine/inference.h"

namespace trireme {

// A checkpoint, or the folder of a Hugging Face model, as the commands that only read it see it.
struct TrainedModel {
  std::filesystem::path asked;   // the run folder or checkpoint the user named
  std::filesystem::path folder;  // of the checkpoint
  std::int64_t step = 0;
  RunConfig config;            // that it was trained with
  std::string tokenizer_hash;  // of its training data; empty: unknown
};

// Finds the checkpoint (a run folder stands for its newest) or model and reads its config.
TrainedModel open_trained_model(const std::filesystem::path& run_or_checkpoint);

// Loads its verified weights into `model`. Where a run folder was asked for and its
// newest checkpoint is damaged, says so on stderr and takes the newest good one.
void load_weights(TrainedModel& from, Inference& model);

// "bytes" or the path of the tokenizer the run's data were made with: what the config
// says, else what lies beside the training data; nothing when neither says.
std::optional<std::string> tokenizer_of(const RunConfig& config);
// The hash of the vocabulary of the training data; empty: unknown.
std::string tokenizer_hash_of(const RunConfig& config);

// The tokenizer to talk to the model with: `given`, else the run's own. Throws
// DataError when there is none or its vocabulary is not the model's.
std::unique_ptr<data::Tokenizer> open_tokenizer_for(const TrainedModel& model,
                                                    const std::string& given);

}  // namespace trireme
