#include "trainer/commands/config.h"

#include <cstdio>
#include <memory>

#include "trainer/config/effective.h"
#include "trainer/config/reader.h"
#include "trainer/config/reference.h"

namespace trireme {
namespace {

struct Choices {
  std::string config;
  bool markdown = false;
};

void print(const std::string& text) {
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!is_written || std::fflush(stdout) != 0) {
    throw EnvironmentError("cannot write to standard output");
  }
}

}  // namespace

Command make_config(CLI::App& program, const std::vector<Override>& overrides) {
  CLI::App* config = program.add_subcommand("config", "Print a run's config, or all its keys");
  config->require_subcommand(1);
  const auto choices = std::make_shared<Choices>();

  CLI::App* show = config->add_subcommand(
      "show", "Check a config and print it in full, with the origin of every value");
  show->add_option("CONFIG", choices->config, "the config file")->required();

  CLI::App* keys = config->add_subcommand("keys", "Print every key, its default and its meaning");
  keys->add_flag("--markdown", choices->markdown, "as the tables of the README");

  const auto run = [=, &overrides] {
    if (show->parsed()) print(effective_toml(load_config(choices->config, overrides)));
    if (keys->parsed() && !overrides.empty()) {
      throw ConfigError(
          say("'trireme config keys' reads no config, so it takes no --", overrides.front().key));
    }
    if (keys->parsed()) print(choices->markdown ? reference_markdown() : reference_text());
    return ExitCode::kDone;
  };
  return {config, run, true};
}

}  // namespace trireme
