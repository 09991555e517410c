#include "trainer/commands/command.h"

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
      "{}: {} of its keys have no counterpart or are unknown, and may change what is computed; "
      "nothing was written (use --leave-out KEY to convert without a key):\n"
      "  {}",
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
  CLI::App* app = program.add_subcommand("import-config",
                                         "Convert a torchtitan, Megatron-LM or nanotron config");
  app->add_option("FILE", choices->from,
                  "Config to convert: torchtitan .toml, nanotron .yaml, or Megatron-LM arguments "
                  "(a command line or a shell script)")
      ->required();
  app->add_option("-o,--output", choices->output, "Output file (default: standard output)")
      ->type_name("FILE");
  app->add_option("--leave-out", choices->leave_out,
                  "Key of the source to drop although it changes the computation; may be repeated")
      ->type_name("KEY")
      ->allow_extra_args(false);
  app->footer(
      "If a key changes the computation and has no counterpart, it is listed and nothing is "
      "written.\n"
      "Keys without an effect on the result (logging, paths, performance) are listed on standard\n"
      "error and in comments of the config.");
  return {app, [choices] { return import_config(*choices); }};
}

}  // namespace trireme
