#include <memory>

#include "model/base/error.h"
#include "model/base/log.h"
#include "model/device/cpu/threads.h"
#include "parallel/comm/gpu_environment.h"
#include "parallel/comm/launcher.h"
#include "trainer/commands/command.h"
#include "trainer/config/for_ranks.h"
#include "trainer/config/loaded_config.h"
#include "trainer/config/reader.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/loop/data_checks.h"
#include "trainer/loop/inject/fault.h"
#include "trainer/loop/train_run.h"
#include "trainer/supervise/preflight/job.h"
#include "trainer/supervise/watchdog/run_rank.h"

namespace trireme {
namespace {

LoadedConfig config_for(const LoadedConfig& loaded, const World& world) {
  try {
    return for_ranks(loaded, world.size());
  } catch (const ConfigError& error) {
    throw on_all_ranks(ConfigError(error.what()));
  }
}

// `trireme train`: resumes from the newest good checkpoint of the run folder, if any, and trains to
// the end or to a signal. Returns kDone or kStopped; throws on every other end.
ExitCode train(const LoadedConfig& loaded) {
  const auto injections = inject::ParameterInjections::from(environment_variable);
  auto fault = inject::FaultInjection::from(environment_variable);
  const std::string risk = launch_risk(environment_variable);
  if (!risk.empty() && launched_rank(environment_variable) == 0) log_warning("{}", risk);
  World world(environment_variable);
  if (fault) {
    world.recorder().observe([&](const flight::Progress& at) { fault->apply(world.rank(), at); });
    if (world.rank() == 0) log_warning("{}: {}", inject::FaultInjection::kVariable, fault->text());
  }
  const ElasticConfig& elastic = loaded.config.elastic;
  const WatchOptions watch{.heartbeat_timeout_s = elastic.heartbeat_timeout_s,
                           .stall = {elastic.stall_timeout_s, elastic.load_save_timeout_s}};
  return run_rank(world, watch, [&] {
    const Device device = open_device(loaded.config.job.device, world.local_rank());
    world.use_device(device, loaded.config.job.reproducible);
    const std::string gpu_risk = comm::gpu_variables_risk(environment_variable);
    if (device.is_cuda() && world.size() > 1 && world.rank() == 0 && !gpu_risk.empty()) {
      log_warning("{}", gpu_risk);
    }
    if (elastic.preflight) preflight::require_same_program(world, loaded);
    const int threads = cpu::use_threads(loaded.config.job.threads, world.local_size());
    check_tokenizer(loaded.config);
    return TrainRun(config_for(loaded, world), world, device, threads, injections).run();
  });
}

}  // namespace

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
      "';'. once=FILE creates the file and skips the fault while it exists; count=3 injects it\n"
      "the third time that the rank enters the phase:\n"
      "  \"rank=2 step=5 phase=backward action=kill once=/tmp/injected\"\n"
      "\n"
      "Example: trireme train configs/tiny.toml --training.steps=100");
  return {app, [file, &overrides] { return train(load_config(*file, overrides)); }, true};
}

}  // namespace trireme
