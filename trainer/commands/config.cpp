#include "trainer/commands/command.h"

#include <memory>

#include "model/base/log.h"
#include "trainer/commands/config_diff.h"
#include "trainer/commands/output.h"
#include "trainer/config/effective.h"
#include "trainer/config/notes.h"
#include "trainer/config/reader.h"
#include "trainer/config/reference.h"
#include "trainer/config/value_text.h"
#include "trainer/convert/huggingface/config_json.h"

namespace trireme {
namespace {

struct ConfigChoices {
  std::string config;
  std::string folder;
  bool markdown = false;
};

// The config of a run with the shape and the weights of a Hugging Face model.
std::string toml_of_foreign(const std::filesystem::path& folder) {
  const ImportedConfig imported = read_config_json(folder);
  std::string text;
  for (const std::string& note : imported.notes) text += say("# ignored: ", note, "\n");
  return say(text, imported.toml, "\n[checkpoint]\ninitial_load_path = ",
             to_toml(std::filesystem::absolute(folder).lexically_normal().string()), "\n");
}

}  // namespace

Command make_config(CLI::App& program, const std::vector<Override>& overrides) {
  CLI::App* config = program.add_subcommand(
      "config",
      "Check and print a config, list all config keys, compare two configs, or convert a Hugging "
      "Face config");
  config->require_subcommand(1);
  const auto choices = std::make_shared<ConfigChoices>();

  CLI::App* show =
      config->add_subcommand("show", "Check a config and print every value with its origin");
  show->add_option("CONFIG", choices->config, "Config file (TOML)")->required();

  CLI::App* keys =
      config->add_subcommand("keys", "List every key with its type, default, range and meaning");
  keys->add_flag("--markdown", choices->markdown,
                 "Print Markdown tables, as in configs/REFERENCE.md");

  const auto compared = std::make_shared<ConfigDiff>();
  CLI::App* diff = add_config_diff(*config, *compared);

  CLI::App* foreign = config->add_subcommand(
      "from-hf",
      "Print the config sections that describe a Hugging Face model and load its weights");
  foreign->add_option("DIR", choices->folder, "Hugging Face model folder (with config.json)")
      ->required();

  const auto run = [=, &overrides] {
    if (foreign->parsed()) print_out(toml_of_foreign(choices->folder));
    if (show->parsed()) {
      const LoadedConfig loaded = load_config(choices->config, overrides, Purpose::kPlanning);
      for (const std::string& note : config_notes(loaded.config)) log_warning("{}", note);
      print_out(effective_toml(loaded));
    }
    if (keys->parsed() && !overrides.empty()) {
      throw ConfigError(
          say("'trireme config keys' reads no config, so it takes no --", overrides.front().key));
    }
    if (diff->parsed() && !overrides.empty()) {
      throw ConfigError(say("'trireme config diff' compares two files, so it takes no --",
                            overrides.front().key, "; write it into one of them"));
    }
    if (diff->parsed()) print_out(config_diff(*compared));
    if (keys->parsed()) print_out(choices->markdown ? reference_markdown() : reference_text());
    return ExitCode::kDone;
  };
  return {config, run, true};
}

}  // namespace trireme
