#include "trainer/commands/checkpoint_export.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/names.h"
#include "checkpoint/huggingface/model_folder.h"
#include "checkpoint/store/commit.h"
#include "model/base/file.h"
#include "model/base/human.h"
#include "trainer/commands/export_check.h"
#include "trainer/convert/huggingface/config_json.h"
#include "trainer/convert/huggingface/tokenizer_files.h"
#include "trainer/convert/huggingface/weight_export.h"
#include "trainer/loop/trained_model.h"
#include "trainer/telemetry/process_memory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargestBlock = 64u << 20;
constexpr std::uint64_t kSmallestMemory = 32u << 20;

void line(const char* name, const std::string& value) {
  fmt::print("{:10} {}\n", name, value);
}

// A folder with a temporary name until publish(); removed otherwise.
class PartialFolder {
 public:
  explicit PartialFolder(const fs::path& final_path) : final_(final_path) {
    const fs::path named = fs::absolute(final_).lexically_normal();
    final_ = named.has_filename() ? named : named.parent_path();
    std::error_code why;
    if (fs::exists(final_, why) && !(fs::is_directory(final_, why) && fs::is_empty(final_, why))) {
      throw ConfigError(say("--output ", final_.string(), " exists already"));
    }
    path_ = final_.parent_path() / say(checkpoint::kPartialPrefix, final_.filename().string(), "-",
                                       checkpoint::new_uuid());
    make_folders(path_);
  }
  ~PartialFolder() {
    std::error_code ignored;
    if (!is_published_) fs::remove_all(path_, ignored);
  }
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  const fs::path& path() const { return path_; }
  const fs::path& final_path() const { return final_; }

  void publish() {
    sync_folder(path_);
    std::error_code why;
    fs::rename(path_, final_, why);  // also over an empty folder
    if (why) {
      throw EnvironmentError(say("cannot name the export ", final_.string(), ": ", why.message()));
    }
    is_published_ = true;
    sync_folder(final_.parent_path());
  }

 private:
  fs::path final_;
  fs::path path_;
  bool is_published_ = false;
};

DType dtype_of(const ExportOptions& options, const RunConfig& config) {
  const std::string& trained = config.training.dtype;
  const std::string& name = !options.dtype.empty() ? options.dtype
                            : trained == "float8"  ? "bfloat16"
                                                   : trained;
  return *checkpoint::dtype_of(name);
}

void write_json(const fs::path& path, const nlohmann::ordered_json& value) {
  replace_text(path, value.dump(2) + "\n");
}

// The model's tokenizer; null if it is unknown or missing, with the reason in `note`.
std::unique_ptr<data::Tokenizer> tokenizer_for(const TrainedModel& trained,
                                               const std::string& given, std::string& note) {
  if (!given.empty()) return open_tokenizer_for(trained, given);
  if (!tokenizer_of(trained.config)) {
    note = "unknown: data.tokenizer is not set; give --tokenizer, or copy its files";
    return nullptr;
  }
  try {
    return open_tokenizer_for(trained, "");
  } catch (const DataError& why) {
    note = say("not exported: ", why.what());
  }
  return nullptr;
}

// Writes the tokenizer files that transformers reads, under the names it expects.
std::string copy_tokenizer(const data::Tokenizer& tokenizer, const ModelConfig& model,
                           const fs::path& folder) {
  const fs::path source = tokenizer.path();
  if (source.empty()) {
    write_byte_tokenizer(folder, tokenizer.end_of_document(), model.max_position_embeddings);
    return tokenizer.name();
  }
  const fs::path name = source.extension() == ".json" ? "tokenizer.json" : "tokenizer.model";
  std::string copied = source.string();
  if (is_tiktoken(tokenizer)) {
    write_json(folder / "tokenizer.json", tiktoken_json(tokenizer));
    copied += " as tokenizer.json";
  } else {
    fs::copy_file(source, folder / name);
  }
  std::error_code ignored;
  const fs::path map_file = source.parent_path() / "special_tokens_map.json";
  if (fs::exists(map_file, ignored)) {
    fs::copy_file(map_file, folder / map_file.filename());
    copied += say(", ", map_file.filename().string());
  }
  const fs::path config = source.parent_path() / "tokenizer_config.json";
  auto given = nlohmann::ordered_json::object();
  if (fs::exists(config, ignored)) {
    given = nlohmann::ordered_json::parse(read_text(config), nullptr, /*allow_exceptions=*/false);
    if (!given.is_object()) throw DataError(say(config.string(), " is not a JSON object"));
    copied += say(", ", config.filename().string());
  }
  const auto* model_file = dynamic_cast<const data::SentencePieceTokenizer*>(&tokenizer);
  if (model_file && given.empty() && needs_tokenizer_json(*model_file)) {
    write_json(folder / "tokenizer.json", sentencepiece_json(*model_file));
    copied += ", also as tokenizer.json";
  } else if (model_file && !model_file->lossless() && !model_file->puts_space_before()) {
    copied +=
        ", which normalizes text: only the SentencePiece library is certain to give these "
        "ids";
  }
  write_json(folder / config.filename(),
             tokenizer_config_json(tokenizer, given, model.max_position_embeddings));
  return copied;
}

std::uint64_t memory_of(const ExportOptions& options, const ModelConfig& model,
                        const WeightExport& weights) {
  const std::uint64_t logits = memory_of_logits(model);
  const bool compares = !options.no_check && logits <= options.memory_bytes;
  return std::max(weights.memory(), compares ? logits : 0);
}

}  // namespace

CLI::App* add_checkpoint_export(CLI::App& checkpoint, ExportOptions& options) {
  CLI::App* app = checkpoint.add_subcommand("export",
                                            "Export a checkpoint as a Hugging Face model "
                                            "(safetensors and config.json) and check the result");
  app->add_option("path", options.model, "A checkpoint, or a run folder (its newest checkpoint)")
      ->required()
      ->type_name("RUN_OR_CHECKPOINT");
  app->add_option("--output", options.output, "Folder to create")->required()->type_name("DIR");
  app->add_option("--dtype", options.dtype,
                  "Dtype of the exported weights (default: training.dtype, or bfloat16 for float8)")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  app->add_option("--shard-size", options.shard_bytes,
                  "Maximum size of a safetensors file, such as 5GB or 500MB")
      ->transform(CLI::AsSizeValue(true))
      ->type_name("SIZE")
      ->default_str("5GB");
  app->add_option("--memory", options.memory_bytes,
                  "Memory the export may use; logits are compared only if the whole model fits")
      ->transform(CLI::AsSizeValue(true))
      ->type_name("SIZE")
      ->default_str("1GB");
  app->add_option(
      "--tokenizer", options.tokenizer,
      "Tokenizer: bytes, or a file or folder as in 'trireme tokenize' (default: the run's)");
  app->add_flag("--ema", options.ema,
                "Export the exponential average of the weights (training.ema)");
  app->add_flag("--no-check", options.no_check,
                "Skip the check, which reads the export back and compares it with the checkpoint");
  app->add_option("--logits", options.logits,
                  "Write the tokens and logits of the check to this JSON file, for comparison with "
                  "another program")
      ->type_name("FILE");
  return app;
}

ExitCode export_checkpoint(const ExportOptions& options) {
  if (options.memory_bytes < kSmallestMemory) {
    throw ConfigError(say("--memory: the export needs ", human_bytes(kSmallestMemory)));
  }
  if (options.shard_bytes == 0) throw ConfigError("--shard-size must be above 0");
  if (options.no_check && !options.logits.empty()) {
    throw ConfigError(
        "--logits writes the logits of the check; it cannot be combined with --no-check");
  }
  if (checkpoint::huggingface::is_model_folder(options.model)) {
    throw CheckpointError(say(options.model, " already is a Hugging Face model"));
  }
  TrainedModel trained = open_trained_model(options.model, options.ema);
  trained.asked = trained.folder;  // no fallback to an older checkpoint
  const checkpoint::Manifest manifest = checkpoint::read_manifest(trained.folder);
  const ModelConfig& model = trained.config.model;
  const DType dtype = dtype_of(options, trained.config);
  const std::uint64_t at_start = process_memory().resident_bytes;
  WeightExport weights(
      {.checkpoint = trained.folder,
       .manifest = manifest,
       .model = model,
       .dtype = dtype,
       .shard_bytes = options.shard_bytes,
       .block_bytes = std::min(kLargestBlock, (options.memory_bytes - kSmallestMemory / 2) / 4),
       .prefix =
           std::string(options.ema ? checkpoint::kAveragePrefix : checkpoint::kWeightsPrefix)});
  line("checkpoint", fmt::format("{} (step {})", trained.folder.string(), trained.step));
  line("model",
       fmt::format("{}, {} parameters", model.model_type, grouped(parameter_count(model))));
  line("weights",
       fmt::format("{} of {} in {} file(s){}", human_bytes(weights.bytes()), name_of(dtype),
                   weights.files(), options.ema ? ": their exponential average" : ""));
  line("memory",
       fmt::format("at most {} in addition to {} of the program",
                   human_bytes(memory_of(options, model, weights)), human_bytes(at_start)));

  PartialFolder partial(options.output);
  checkpoint::check_space(partial.path(), weights.bytes());
  std::string note;
  const auto tokenizer = tokenizer_for(trained, options.tokenizer, note);
  const std::int64_t end = tokenizer ? tokenizer->end_of_document() : -1;
  const SpecialTokens ends = special_tokens(trained.config.special_tokens, end);
  write_json(partial.path() / "config.json", config_json(model, dtype, ends));
  require_exportable(model, partial.path());
  write_json(partial.path() / "generation_config.json", generation_config_json(ends));
  weights.write(partial.path());
  line("tokenizer", tokenizer ? copy_tokenizer(*tokenizer, model, partial.path()) : note);
  if (options.no_check) {
    line("check", "skipped");
  } else {
    const ExportCheck check{trained, partial.path(), dtype, options.memory_bytes, options.logits};
    line("check", check_export(check, weights));
  }
  partial.publish();
  line("peak", human_bytes(process_memory().peak_bytes));
  line("exported", partial.final_path().string());
  return ExitCode::kDone;
}

}  // namespace trireme
