#include "trainer/commands/import_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/base/file.h"
#include "trainer/commands/output.h"
#include "trainer/convert/trainers/translation.h"

namespace trireme {
namespace {

struct ImportChoices {
  std::string from;
  std::string output;
  std::vector<std::string> leave_out;
};

std::string refusal(const std::string& file, const std::vector<std::string>& keys) {
  return fmt::format(
      "{}: {} of its keys cannot be said here, or are not known here, and may change what is "
      "computed; nothing was written (--leave-out KEY writes the config without it):\n  {}",
      file, keys.size(), fmt::join(keys, "\n  "));
}

ExitCode import_config(const ImportChoices& choices) {
  constexpr std::uint64_t kLongest = 1 << 20;
  const ForeignConfig from = read_foreign_config(choices.from, read_text(choices.from, kLongest));
  const Translation translation(from, {choices.leave_out.begin(), choices.leave_out.end()});
  if (!translation.refused().empty()) {
    throw ConfigError(refusal(choices.from, translation.refused()));
  }
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
  app->add_option("--leave-out", choices->leave_out,
                  "a key of theirs to leave out although it changes what is computed")
      ->type_name("KEY")
      ->allow_extra_args(false);
  app->footer(
      "What changes the computation and cannot be said here is listed, and nothing is\n"
      "written. What is harmless without a counterpart (logging, paths, speed) is named on\n"
      "standard error and in the config's comments.");
  return {app, [choices] { return import_config(*choices); }};
}

}  // namespace trireme
