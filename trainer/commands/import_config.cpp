#include "trainer/commands/import_config.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "model/base/file.h"
#include "trainer/commands/output.h"
#include "trainer/imports/translation.h"

namespace trireme {
namespace {

struct ImportChoices {
  std::string from;
  std::string output;
};

ExitCode import_config(const ImportChoices& choices) {
  constexpr std::uint64_t kLongest = 1 << 20;
  const Translation translation(
      read_foreign_config(choices.from, read_text(choices.from, kLongest)));
  for (const std::string& one : translation.left()) {
    fmt::print(stderr, "no counterpart: {}\n", one);
  }
  if (choices.output.empty()) {
    print_out(translation.toml());
  } else {
    replace_text(choices.output, translation.toml());
  }
  return ExitCode::kDone;
}

}  // namespace

Command make_import_config(CLI::App& program) {
  const auto choices = std::make_shared<ImportChoices>();
  CLI::App* app =
      program.add_subcommand("import-config", "Write a config of another trainer as one of ours");
  app->add_option(
         "FILE", choices->from,
         "torchtitan's .toml, nanotron's .yaml, or Megatron-LM's arguments: a command line "
         "or a shell script")
      ->required();
  app->add_option("-o,--output", choices->output, "our config (default: standard output)")
      ->type_name("FILE");
  app->footer("What has no counterpart is named on standard error and in the config's comments.");
  return {app, [choices] { return import_config(*choices); }};
}

}  // namespace trireme
