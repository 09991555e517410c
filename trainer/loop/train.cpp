#include "trainer/loop/train.h"

#include "model/base/log.h"
#include "model/device/cpu/threads.h"
#include "parallel/comm/launcher.h"
#include "trainer/config/for_ranks.h"
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

}  // namespace

ExitCode train(const LoadedConfig& loaded) {
  const auto injections = inject::ParameterInjections::from(environment_variable);
  const auto fault = inject::FaultInjection::from(environment_variable);
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
    world.use_device(device);
    if (elastic.preflight) preflight::require_same_program(world, loaded);
    const int threads = cpu::use_threads(loaded.config.job.threads, world.local_size());
    check_tokenizer(loaded.config);
    return TrainRun(config_for(loaded, world), world, device, threads, injections).run();
  });
}

}  // namespace trireme
