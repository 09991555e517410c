#include "trainer/commands/report.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "model/base/file.h"
#include "trainer/report/page.h"
#include "trainer/report/run_data.h"

namespace trireme {
namespace {

struct ReportOptions {
  std::string run_dir;
  std::string output;
};

ExitCode report(const ReportOptions& options) {
  const std::filesystem::path folder = options.run_dir;
  const std::filesystem::path output =
      options.output.empty() ? folder / "report.html" : std::filesystem::path(options.output);
  std::error_code why;
  if (std::filesystem::is_directory(output, why)) {
    throw ConfigError(say("--output ", output.string(), " is a folder; name a file"));
  }
  const RunData run = read_run(folder);
  for (const std::string& complaint : run.complaints) fmt::print(stderr, "note: {}\n", complaint);
  replace_text(output, report_page(run));
  fmt::print("{}\n", output.string());
  return ExitCode::kDone;
}

}  // namespace

Command make_report(CLI::App& program) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* app = program.add_subcommand("report", "Write one self-contained HTML page of a run");
  app->add_option("run_dir", options->run_dir, "the run's folder ([job] dump_folder)")
      ->required()
      ->type_name("RUN_DIR");
  app->add_option("-o,--output", options->output, "the page (default: RUN_DIR/report.html)")
      ->type_name("FILE");
  return {app, [options] { return report(*options); }};
}

}  // namespace trireme
