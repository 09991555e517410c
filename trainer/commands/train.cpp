#include "trainer/commands/command.h"

#include <memory>

#include "trainer/config/reader.h"
#include "trainer/loop/train.h"

namespace trireme {

Command make_train(CLI::App& program, const std::vector<Override>& overrides) {
  CLI::App* app = program.add_subcommand(
      "train", "Train a model, or resume it from its newest good checkpoint");
  auto file = std::make_shared<std::string>();
  app->add_option("CONFIG", *file, "Config file (TOML)")->required();
  app->footer(
      "If job.dump_folder holds a checkpoint, training resumes from the newest good one; see\n"
      "checkpoint.resume. SIGTERM, SIGUSR1 and Ctrl-C finish the current step, commit a "
      "checkpoint\n"
      "and stop; a second Ctrl-C stops at once.\n"
      "\n"
      "Fault injection, to test the settings named in parentheses:\n"
      "TRIREME_INJECT_GRADIENT corrupts one gradient once (training.on_nonfinite, on_spike):\n"
      "  \"step=5 rank=0 parameter=layers.0.mlp.up.weight value=nan\"\n"
      "TRIREME_INJECT_WEIGHT flips one bit of a weight (elastic.replica_check_interval):\n"
      "  \"step=5 rank=1 parameter=layers.0.mlp.up.weight bit=20\"\n"
      "TRIREME_INJECT_FAULT makes ranks fail when they enter a phase at or after a step "
      "([elastic]).\n"
      "Actions: kill, abort, stop, exit, throw, hang, delay (50 ms). Separate several faults by\n"
      "';'. A fault with once=FILE creates the file and is skipped while it exists:\n"
      "  \"rank=2 step=5 phase=backward action=kill once=/tmp/injected\"\n"
      "\n"
      "Example: trireme train configs/tiny.toml --training.steps=100");
  return {app, [file, &overrides] { return train(load_config(*file, overrides)); }, true};
}

}  // namespace trireme
