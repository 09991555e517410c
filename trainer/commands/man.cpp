#include "trainer/commands/command.h"

#include "trainer/commands/manual_page.h"
#include "trainer/commands/output.h"
#include "trainer/commands/version.h"

namespace trireme {

Command make_man(CLI::App& program) {
  CLI::App* app = program.add_subcommand("man", "Print the manual page");
  app->footer("To read it: trireme man | man -l -");
  return {app, [&program] {
            print_out(manual_page(outline(program), version()));
            return ExitCode::kDone;
          }};
}

}  // namespace trireme
