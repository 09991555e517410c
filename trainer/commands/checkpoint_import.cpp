#include "trainer/commands/checkpoint_import.h"

#include <fmt/format.h>

#include <filesystem>

#include "checkpoint/huggingface/model_folder.h"
#include "checkpoint/store/saver.h"
#include "model/base/file.h"
#include "model/base/human.h"
#include "trainer/convert/huggingface/config_json.h"
#include "trainer/engine/inference.h"
#include "trainer/loop/train_state.h"
#include "trainer/loop/trained_model.h"

namespace trireme {

namespace fs = std::filesystem;

CLI::App* add_checkpoint_import(CLI::App& checkpoint, ImportOptions& options) {
  CLI::App* app = checkpoint.add_subcommand(
      "import", "Import a Hugging Face model as a run folder with one checkpoint");
  app->add_option("path", options.model,
                  "Hugging Face model folder (with config.json and safetensors)")
      ->required()
      ->type_name("DIR");
  app->add_option("--output", options.output, "Run folder to create")
      ->required()
      ->type_name("RUN_DIR");
  return app;
}

ExitCode import_checkpoint(const ImportOptions& options) {
  const fs::path folder = options.model, run = options.output;
  if (!checkpoint::huggingface::is_model_folder(folder)) {
    throw CheckpointError(say(folder.string(), " is not a Hugging Face model: it has no ",
                              checkpoint::huggingface::ModelFolder::kConfig));
  }
  std::error_code ignored;
  if (fs::exists(run, ignored) && !fs::is_empty(run, ignored)) {
    throw ConfigError(say("--output ", run.string(), " exists already"));
  }
  const ImportedConfig imported = read_config_json(folder);
  TrainedModel trained = open_trained_model(folder);
  Inference model({.model = imported.config.model,
                   .device = {},
                   .compute = DType::kF32,
                   .seq_len = 1,
                   .micro_batch = 0,
                   .prompt = 1});
  load_weights(trained, model);

  make_folders(run);
  const checkpoint::Lease lease(run);
  checkpoint::Store store(run, lease);
  checkpoint::Saver saver(store, weight_pieces(model.params(), model.host_masters()));
  const checkpoint::Committed done = saver.save(initial_snapshot(imported.toml));
  replace_text(run / "config.toml", imported.toml);
  fmt::print("model      {}, {} parameters\n", imported.config.model.model_type,
             grouped(parameter_count(imported.config.model)));
  for (const std::string& note : imported.notes) fmt::print("ignored    {}\n", note);
  fmt::print("imported   {}\n", done.folder.string());
  return ExitCode::kDone;
}

}  // namespace trireme
