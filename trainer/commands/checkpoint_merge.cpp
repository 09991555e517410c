#include "trainer/commands/checkpoint_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>
#include <utility>

#include "checkpoint/store/merge.h"
#include "checkpoint/store/saver.h"
#include "model/base/file.h"
#include "model/base/human.h"
#include "trainer/config/difference.h"
#include "trainer/config/effective.h"
#include "trainer/config/reader.h"
#include "trainer/loop/train_state.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using checkpoint::Manifest;
using checkpoint::MergeInput;

// Oldest first, as weights are given in the order of training.
std::vector<fs::path> newest_of_run(const fs::path& run, std::size_t count) {
  if (count == 1) return {checkpoint::newest_checkpoint(run)};
  std::vector<fs::path> folders;
  for (const checkpoint::Summary& summary : checkpoint::Store(run).list()) {
    if (folders.size() < count && summary.manifest) folders.push_back(summary.folder);
  }
  if (folders.size() < count) {
    throw CheckpointError(say(run.string(), " has ", folders.size(),
                              " readable checkpoints, --last asks for ", count));
  }
  std::reverse(folders.begin(), folders.end());
  return folders;
}

std::vector<MergeInput> inputs_of(const MergeOptions& options) {
  std::vector<MergeInput> inputs;
  for (const std::string& path : options.inputs) {
    const std::vector<fs::path> folders = checkpoint::is_checkpoint(path)
                                              ? std::vector<fs::path>{path}
                                              : newest_of_run(path, options.last);
    for (const fs::path& folder : folders) inputs.push_back({fs::weakly_canonical(folder), 1});
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (inputs[i].folder == inputs[j].folder) {
        throw ConfigError(say(inputs[i].folder.string(), " is given twice"));
      }
    }
  }
  if (inputs.size() < 2) {
    throw ConfigError("one checkpoint cannot be merged; name several, or a run folder with --last");
  }
  if (options.weights.empty()) return inputs;
  if (options.weights.size() != inputs.size()) {
    throw ConfigError(say("--weights has ", options.weights.size(), " values for ", inputs.size(),
                          " checkpoints"));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].weight = options.weights[i];
  for (const double weight : options.weights) {
    if (!(weight >= 0)) throw ConfigError(say("--weights: ", weight, " is negative"));
  }
  const double total = std::accumulate(options.weights.begin(), options.weights.end(), 0.0);
  if (!std::isfinite(total) || total == 0) {
    throw ConfigError(say("--weights: their sum is ", total, "; it must be positive and finite"));
  }
  return inputs;
}

LoadedConfig config_of(const Manifest& manifest, const fs::path& folder,
                       std::span<const Override> overrides = {}) {
  const std::string name = (folder / Manifest::kFileName).string() + " (config)";
  LoadedConfig loaded =
      read_config({name, manifest.config, folder}, overrides, Purpose::kInference);
  loaded.config = config_of_last_step(loaded.config, folder, manifest);
  return loaded;
}

// Tensors of equal shapes may still belong to another model: other heads, other positions.
void require_same_model(const Manifest& newest, const fs::path& folder, const Manifest& other,
                        const fs::path& other_folder) {
  std::string changes;
  for (const Change& change :
       difference(config_of(newest, folder).config, config_of(other, other_folder).config)) {
    if (!change.key.starts_with("model.")) continue;
    changes += say("\n  ", change.key, ": ", change.before, " and ", change.after);
  }
  if (!changes.empty()) {
    throw MismatchError(
        say(folder.string(), " and ", other_folder.string(), " hold different models:", changes));
  }
  if (newest.tokenizer != other.tokenizer) {
    throw CheckpointError(say(folder.string(), " and ", other_folder.string(),
                              " were trained with different tokenizers: ", newest.tokenizer,
                              " and ", other.tokenizer));
  }
}

}  // namespace

CLI::App* add_checkpoint_merge(CLI::App& checkpoint, MergeOptions& options) {
  CLI::App* app = checkpoint.add_subcommand(
      "merge", "Average the weights of several checkpoints into a new run folder");
  app->add_option("inputs", options.inputs, "Checkpoints, or run folders (their newest ones)")
      ->required()
      ->type_name("RUN_OR_CHECKPOINT");
  app->add_option("--last", options.last,
                  "Number of newest checkpoints of each run folder (default: 1)")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("K");
  app->add_option("--weights", options.weights,
                  "Weight of each checkpoint, in the order given, those of a run oldest first; "
                  "divided by their sum (default: equal)")
      ->delimiter(',')
      ->type_name("W,W...");
  app->add_option("--output", options.output, "Run folder to create")
      ->required()
      ->type_name("RUN_DIR");
  return app;
}

ExitCode merge_checkpoints(const MergeOptions& options) {
  const fs::path run = options.output;
  std::error_code ignored;
  if (fs::exists(run, ignored) && !fs::is_empty(run, ignored)) {
    throw ConfigError(say("--output ", run.string(), " exists already"));
  }
  const std::vector<MergeInput> inputs = inputs_of(options);
  std::optional<Manifest> newest;
  fs::path newest_folder;
  for (const MergeInput& input : inputs) {
    Manifest manifest = checkpoint::read_manifest(input.folder);
    if (newest) require_same_model(*newest, newest_folder, manifest, input.folder);
    if (newest && manifest.step < newest->step) continue;
    newest = std::move(manifest);
    newest_folder = input.folder;
  }
  const checkpoint::MergedWeights merged = checkpoint::merge_weights(inputs);

  const std::vector<Override> moved{{"job.dump_folder", fs::absolute(run).string()}};
  const std::string toml = effective_toml(config_of(*newest, newest_folder, moved));
  checkpoint::Snapshot snapshot = initial_snapshot(toml);
  snapshot.manifest.tokenizer = newest->tokenizer;
  make_folders(run);
  const checkpoint::Lease lease(run);
  checkpoint::Store store(run, lease);
  checkpoint::Saver saver(store, merged.pieces);
  const checkpoint::Committed done = saver.save(std::move(snapshot));
  replace_text(run / "config.toml", toml);
  double total = 0;
  for (const MergeInput& input : inputs) total += input.weight;
  for (const MergeInput& input : inputs) {
    fmt::print("{:.6f}  {}\n", input.weight / total, input.folder.string());
  }
  fmt::print("merged     {} parameters\nwritten    {}\n",
             grouped(static_cast<std::int64_t>(merged.values.size())), done.folder.string());
  return ExitCode::kDone;
}

}  // namespace trireme
