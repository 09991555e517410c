#include "trainer/commands/command.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/base/file.h"
#include "trainer/commands/output.h"
#include "trainer/tools/audit/audit.h"
#include "trainer/tools/report/report.h"
#include "trainer/tools/report/run_data.h"

namespace trireme {
namespace {

struct ReportOptions {
  std::vector<std::string> run_dirs;
  std::string output;
  bool text = false;
};

// Nothing if the run has no ledger.
std::optional<AuditResult> audit_of(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / "ledger.jsonl")) return std::nullopt;
  try {
    const Audit found = audit_run(folder, /*data=*/false);
    return AuditResult{.is_clean = found.findings.empty(),
                       .is_running = !found.records.holder.empty(),
                       .text = text_of(found)};
  } catch (const Error& error) {
    return AuditResult{.is_clean = false, .is_running = false, .text = error.what()};
  }
}

ExitCode report(const ReportOptions& options) {
  const std::filesystem::path first = options.run_dirs.front();
  const std::filesystem::path output =
      options.output.empty() ? first / "report.html" : std::filesystem::path(options.output);
  std::error_code why;
  if (std::filesystem::is_directory(output, why)) {
    throw ConfigError(say("--output ", output.string(), " is a folder; name a file"));
  }
  std::vector<RunData> runs;
  for (const std::string& folder : options.run_dirs) {
    RunData& run = runs.emplace_back(read_run(folder));
    for (const std::string& complaint : run.complaints) fmt::print(stderr, "note: {}\n", complaint);
    run.audit = audit_of(folder);
  }
  if (options.text && options.output.empty()) {
    print_out(report_text(runs));
    return ExitCode::kDone;
  }
  replace_text(output, options.text ? report_text(runs) : report_page(runs));
  fmt::print("{}\n", output.string());
  return ExitCode::kDone;
}

}  // namespace

Command make_report(CLI::App& program) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* app = program.add_subcommand(
      "report", "Write a self-contained HTML report of one run, or of several for comparison");
  app->add_option("run_dir", options->run_dirs, "Run folder (job.dump_folder)")
      ->required()
      ->type_name("RUN_DIR");
  app->add_option("-o,--output", options->output,
                  "Output file (default: report.html in the first RUN_DIR)")
      ->type_name("FILE");
  app->add_flag("--text", options->text,
                "Write plain text instead of HTML, to standard output unless --output is given");
  return {app, [options] { return report(*options); }};
}

}  // namespace trireme
