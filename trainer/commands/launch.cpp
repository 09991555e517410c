#include "trainer/commands/command.h"

#include <memory>

#include "parallel/comm/launcher.h"
#include "trainer/config/reader.h"
#include "trainer/supervise/launch/hosts.h"
#include "trainer/supervise/launch/slurm_hosts.h"
#include "trainer/supervise/launch/supervisor.h"

namespace trireme {
namespace {

struct LaunchOptions {
  std::string config;
  std::string host_file;
  int ranks = 0;  // 0: not given
};

int wanted_ranks(const LaunchOptions& options, const RunConfig& config) {
  if (options.ranks > 0) return options.ranks;
  if (!options.host_file.empty()) return slots_of(HostFile(options.host_file).usable());
  if (is_in_slurm_allocation(environment_variable)) {
    return slots_of(read_slurm_allocation(environment_variable).places);
  }
  return static_cast<int>(world_size(config.parallelism));
}

ExitCode launch(const LaunchOptions& options, const std::vector<Override>& overrides) {
  if (launched_ranks(environment_variable) > 1) {
    throw ConfigError(
        "trireme launch starts the ranks itself: do not start it under mpirun or srun");
  }
  Supervisor::Job job{.loaded = load_config(options.config, overrides), .words = {options.config}};
  for (const auto& [key, value] : overrides) job.words.push_back("--" + key + "=" + value);
  job.ranks = wanted_ranks(options, job.loaded.config);
  std::unique_ptr<Hosts> hosts;
  if (!options.host_file.empty()) {
    hosts = std::make_unique<HostFile>(options.host_file);
  } else if (is_in_slurm_allocation(environment_variable)) {
    const RunConfig& config = job.loaded.config;
    hosts = std::make_unique<SlurmHosts>(config.job.dump_folder, config.elastic.node_timeout_s,
                                         read_slurm_allocation(environment_variable));
  } else {
    hosts = std::make_unique<ThisHost>(job.ranks);
  }
  return static_cast<ExitCode>(Supervisor(std::move(job), std::move(hosts)).run());
}

}  // namespace

Command make_launch(CLI::App& program, const std::vector<Override>& overrides) {
  CLI::App* app = program.add_subcommand(
      "launch", "Train on many ranks under a supervisor that restarts failed runs");
  const auto options = std::make_shared<LaunchOptions>();
  app->add_option("CONFIG", options->config, "Config file (TOML)")->required();
  app->add_option("-n,--ranks", options->ranks,
                  "Number of ranks (default: the slots of --hostfile or of the Slurm allocation, "
                  "otherwise the product of the degrees in [parallelism])")
      ->check(CLI::Range(1, 1 << 20));
  app->add_option(
      "--hostfile", options->host_file,
      "mpirun hostfile, one \"name slots=N\" per line; the run adapts when the file is edited");
  app->footer(
      "Starts the ranks with mpirun, or with srun inside a Slurm allocation. When a rank dies, "
      "hangs\n"
      "or fails, all ranks are stopped and restarted from the newest state in memory or on disk; "
      "if\n"
      "nodes are lost, with fewer data-parallel ranks and the same global batch size. Errors that "
      "a\n"
      "restart cannot fix, and three restarts in a row without a new step, end the run.\n"
      "SIGTERM, SIGUSR1 and Ctrl-C commit a checkpoint and stop; a second Ctrl-C stops at once.\n"
      "The console shows log lines but no live progress bar, because ranks write to a pipe.\n"
      "\n"
      "Example: trireme launch -n 4 run.toml --elastic.memory_interval=10");
  return {app, [options, &overrides] { return launch(*options, overrides); }, true};
}

}  // namespace trireme
