#include "trainer/loop/trained_model.h"

#include <algorithm>

#include "checkpoint/huggingface/model_folder.h"
#include "checkpoint/store/store.h"
#include "data/open_tokens.h"
#include "data/sidecar.h"
#include "model/base/log.h"
#include "trainer/config/reader.h"
#include "trainer/convert/huggingface/config_json.h"
#include "trainer/convert/huggingface/foreign_weights.h"
#include "trainer/loop/train_state.h"

namespace trireme {
namespace {

// The sidecar of the first training source that has one.
std::optional<data::Sidecar> training_sidecar(const RunConfig& config) {
  for (const DataSource& source : config.data.train) {
    try {
      const auto stream = data::open_tokens(source.path);
      if (auto sidecar = data::read_sidecar(source.path, *stream)) return sidecar;
    } catch (const Error&) {
      continue;  // the training data need not be on this machine
    }
  }
  return std::nullopt;
}

bool is_foreign(const std::filesystem::path& path) {
  return checkpoint::huggingface::is_model_folder(path);
}

CheckpointError no_average(const std::filesystem::path& folder, const char* why) {
  return CheckpointError(say(folder.string(), " has no average of its weights: ", why,
                             "; leave out --ema, or train with training.ema, for example 0.999"));
}

TrainedModel open_foreign(const std::filesystem::path& folder,
                          std::span<const Override> overrides) {
  const ImportedConfig imported = read_config_json(folder);
  const ConfigText text{(folder / "config.json").string(), imported.toml, folder};
  TrainedModel model{folder, folder, 0, read_config(text, overrides, Purpose::kInference).config,
                     ""};
  for (const char* name : {"tokenizer.model", "tokenizer.json"}) {
    if (std::filesystem::exists(folder / name)) {
      model.config.data.tokenizer = std::filesystem::absolute(folder);
    }
  }
  return model;
}

}  // namespace

TrainedModel open_trained_model(const std::filesystem::path& run_or_checkpoint, bool average,
                                std::span<const Override> overrides) {
  if (is_foreign(run_or_checkpoint)) {
    if (average) throw no_average(run_or_checkpoint, "it is a Hugging Face model");
    return open_foreign(run_or_checkpoint, overrides);
  }
  TrainedModel model;
  model.asked = run_or_checkpoint;
  model.folder = checkpoint::newest_checkpoint(run_or_checkpoint);
  const checkpoint::Manifest manifest = checkpoint::read_manifest(model.folder);
  if (average && !has_average(manifest)) {
    throw no_average(model.folder, "its run had training.ema = 0");
  }
  model.average = average;
  model.step = manifest.step;
  model.tokenizer_hash = manifest.tokenizer;
  const RunConfig config =
      read_config({(model.folder / checkpoint::Manifest::kFileName).string() + " (config)",
                   manifest.config, model.folder},
                  overrides, Purpose::kInference)
          .config;
  model.config = config_of_last_step(config, model.folder, manifest);
  const bool has_own_rope =
      std::any_of(overrides.begin(), overrides.end(),
                  [](const Override& one) { return one.key.starts_with("model.rope_scaling"); });
  if (has_own_rope) model.config.model.rope_scaling = config.model.rope_scaling;
  return model;
}

void load_weights(TrainedModel& from, Inference& model) {
  if (is_foreign(from.asked)) {
    ForeignWeights(from.asked, model.spec().model)
        .fill(weight_pieces(model.params(), model.host_masters()));
    model.publish_masters();
    return;
  }
  const std::string_view prefix =
      from.average ? checkpoint::kAveragePrefix : checkpoint::kWeightsPrefix;
  const checkpoint::Loaded loaded =
      checkpoint::load_from(from.asked, weight_pieces(model.params(), model.host_masters(), prefix),
                            checkpoint::Match::kSubset);
  for (const std::string& why : loaded.rejected) log_warning("checkpoint rejected: {}", why);
  from.folder = loaded.folder;
  from.step = loaded.step;
  model.publish_masters();
}

std::optional<std::string> tokenizer_of(const RunConfig& config) {
  if (!config.data.tokenizer.empty()) return config.data.tokenizer;
  const auto sidecar = training_sidecar(config);
  if (!sidecar) return std::nullopt;
  return sidecar->tokenizer_path.empty() ? sidecar->tokenizer : sidecar->tokenizer_path;
}

std::string tokenizer_hash_of(const RunConfig& config) {
  const auto sidecar = training_sidecar(config);
  return sidecar ? sidecar->tokenizer_hash : std::string();
}

std::unique_ptr<data::Tokenizer> open_tokenizer_for(const TrainedModel& model,
                                                    const std::string& given) {
  const std::optional<std::string> name = given.empty() ? tokenizer_of(model.config) : given;
  if (!name) {
    throw DataError(say(model.folder.string(),
                        ": neither its config (data.tokenizer) nor its training data name a "
                        "tokenizer; give --tokenizer bytes|FILE"));
  }
  auto tokenizer = data::open_tokenizer(*name);
  if (tokenizer->vocab_size() > model.config.model.vocab_size) {
    throw DataError(say("tokenizer ", *name, " has ", tokenizer->vocab_size(),
                        " ids, the model of ", model.folder.string(), " only ",
                        model.config.model.vocab_size));
  }
  if (!model.tokenizer_hash.empty() && model.tokenizer_hash != tokenizer->hash()) {
    throw DataError(say("tokenizer ", *name, " (", tokenizer->hash(),
                        ") is not the one the model of ", model.folder.string(),
                        " was trained with (", model.tokenizer_hash, ")"));
  }
  return tokenizer;
}

}  // namespace trireme
