#include "trainer/commands/command.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "trainer/tools/audit/audit.h"

namespace trireme {
namespace {

struct AuditOptions {
  std::string run_dir;
  bool data = false;
};

ExitCode audit(const AuditOptions& options) {
  const Audit found = audit_run(options.run_dir, options.data);
  fmt::print("{}", text_of(found));
  if (found.findings.empty()) return ExitCode::kDone;
  throw DataError(say(options.run_dir, " is not clean: ", found.findings.size(),
                      " findings, the first: ", text_of(found.findings.front())));
}

}  // namespace

Command make_audit(CLI::App& program) {
  auto options = std::make_shared<AuditOptions>();
  CLI::App* app = program.add_subcommand(
      "audit", "Prove that no sample was skipped or repeated; fails if one was");
  app->add_option("run_dir", options->run_dir, "Run folder (job.dump_folder)")
      ->required()
      ->type_name("RUN_DIR");
  app->add_flag("--data", options->data, "Also read the token files and compare every token");
  app->footer("A run that is still training is audited up to its last complete step.");
  return {app, [options] { return audit(*options); }};
}

}  // namespace trireme
