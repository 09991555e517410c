#include "trainer/commands/command.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <numeric>

#include "trainer/commands/output.h"
#include "trainer/commands/slurm_script.h"
#include "trainer/config/for_ranks.h"
#include "trainer/config/reader.h"

namespace trireme {
namespace {

struct SlurmChoices {
  std::string config;
  std::int64_t ranks = 0;  // 0: from the layout and the nodes
  std::int64_t cores = 0;  // 0: job.threads
  std::int64_t gpus = -1;  // -1: one per rank if the device is "cuda"
  std::string chain = "requeue";
  SlurmJob job;
};

const std::map<std::string, SlurmChain> kChains = {{"requeue", SlurmChain::kRequeue},
                                                   {"array", SlurmChain::kArray},
                                                   {"singleton", SlurmChain::kSingleton}};

// Ranks of the job: --ranks, otherwise as the layout needs. If a data-parallel degree is open, the
// fewest ranks that divide evenly over the nodes, or one per GPU if the GPUs are given.
std::int64_t ranks_of(const LoadedConfig& loaded, const SlurmChoices& choices) {
  const ParallelismConfig& layout = loaded.config.parallelism;
  std::int64_t ranks = choices.ranks > 0 ? choices.ranks : world_size(layout);
  if (choices.ranks == 0 && (layout.data_shard == 0 || layout.data_replicate == 0)) {
    ranks = std::lcm(ranks, choices.job.nodes * std::max<std::int64_t>(choices.gpus, 1));
  }
  const std::int64_t needed = world_size(for_ranks(loaded, ranks).config.parallelism);
  if (needed != ranks) {
    throw ConfigError(
        say("--ranks ", ranks, ": [parallelism] needs ", needed, " ranks",
            needed < ranks ? ", or a multiple with a data-parallel degree of 0" : ""));
  }
  return ranks;
}

std::vector<std::string> command(const SlurmChoices& choices, std::int64_t ranks,
                                 const std::vector<Override>& overrides) {
  std::vector<std::string> words{std::filesystem::read_symlink("/proc/self/exe").string()};
  if (choices.job.is_supervised) {
    words.insert(words.end(), {"launch", "-n", std::to_string(ranks)});
  } else {
    words.emplace_back("train");
  }
  words.push_back(std::filesystem::absolute(choices.config).lexically_normal().string());
  for (const Override& one : overrides) words.push_back(say("--", one.key, "=", one.value));
  return words;
}

ExitCode print_script(const SlurmChoices& choices, const std::vector<Override>& overrides) {
  const LoadedConfig loaded = load_config(choices.config, overrides);
  const RunConfig& config = loaded.config;
  const std::int64_t ranks = ranks_of(loaded, choices);
  SlurmJob job = choices.job;
  if (ranks % job.nodes != 0) {
    throw ConfigError(say("--nodes ", job.nodes, ": ", ranks,
                          " ranks cannot be distributed equally over the nodes"));
  }
  if (!job.time.empty() && slurm_seconds(job.time) <= job.warning) {
    throw ConfigError(say("--time ", job.time, " ends before the run is asked to stop, ",
                          job.warning,
                          " s before the limit; increase --time or decrease --warning"));
  }
  job.ranks_per_node = ranks / job.nodes;
  job.cores = choices.cores > 0 ? choices.cores : std::max<std::int64_t>(config.job.threads, 1);
  job.gpus = choices.gpus >= 0             ? choices.gpus
             : config.job.device == "cuda" ? job.ranks_per_node
                                           : 0;
  job.run_folder = config.job.dump_folder;
  job.checkpoint_folder = checkpoint_folder(config);
  job.chain = kChains.at(choices.chain);
  if (job.name.empty()) job.name = job.run_folder.filename().string();
  job.command = command(choices, ranks, overrides);
  print_out(slurm_script(job));
  return ExitCode::kDone;
}

}  // namespace

Command make_slurm(CLI::App& program, const std::vector<Override>& overrides) {
  const auto choices = std::make_shared<SlurmChoices>();
  SlurmJob& job = choices->job;
  CLI::App* app =
      program.add_subcommand("slurm", "Print a Slurm job script that trains and requeues itself");
  app->add_option("CONFIG", choices->config, "Config file (TOML)")->required();
  app->add_option("-N,--nodes", job.nodes,
                  "Number of nodes, with the same number of ranks each (default: 1)")
      ->check(CLI::Range(1, 1 << 20));
  app->add_option("-n,--ranks", choices->ranks,
                  "Number of ranks, if a data-parallel degree is 0 (default: one per node, or one "
                  "per GPU with --gpus-per-node; more if the other degrees need them)")
      ->check(CLI::Range(1, 1 << 24));
  app->add_option("-c,--cpus-per-task", choices->cores,
                  "Cores per rank (default: job.threads, or 1)")
      ->check(CLI::Range(1, 1 << 16));
  app->add_option("--gpus-per-node", choices->gpus,
                  "GPUs per node (default: one per rank if job.device is \"cuda\", otherwise none)")
      ->check(CLI::Range(0, 1 << 16));
  app->add_option("-t,--time", job.time,
                  "Time limit of a job, in Slurm's format (default: the partition's)")
      ->type_name("TIME");
  app->add_option("-p,--partition", job.partition, "Partition (default: the cluster's)")
      ->type_name("NAME");
  app->add_option("-J,--job-name", job.name, "Job name (default: the name of the run folder)")
      ->type_name("NAME");
  app->add_option("--warning", job.warning,
                  "Seconds before the time limit at which the run commits a checkpoint and stops "
                  "(default: 180)")
      ->check(CLI::Range(1, 65535));
  app->add_option("--chain", choices->chain,
                  "How the run continues when a job ends: requeue (default), or, at sites without "
                  "requeue, array or singleton")
      ->check(CLI::IsMember({"requeue", "array", "singleton"}).description(""))
      ->type_name("KIND");
  app->add_option("--jobs", job.jobs, "Number of jobs of an array or singleton chain (default: 5)")
      ->check(CLI::Range(1, 1000));
  app->add_option("--sbatch", job.options, "Additional sbatch option; may be repeated")
      ->type_name("OPTION")
      ->allow_extra_args(false);
  CLI::Option* launch =
      app->add_flag("--launch", job.is_supervised,
                    "Run under 'trireme launch', which restarts failed ranks within the job and "
                    "survives the loss of any node except the first");
  app->add_option("--spares", job.spares, "Number of additional nodes that replace lost ones")
      ->check(CLI::Range(1, 1 << 20))
      ->needs(launch);
  app->footer(
      "The script requests the resources that the config's layout needs, and the job requeues "
      "itself\n"
      "after a time limit, a preemption or a lost node. Slurm may send its warning up to a minute\n"
      "early.\n"
      "\n"
      "Example: trireme slurm run.toml --nodes 4 --time 24:00:00 --sbatch=--account=me > "
      "run.sbatch");
  return {app, [choices, &overrides] { return print_script(*choices, overrides); }, true};
}

}  // namespace trireme
