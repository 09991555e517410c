#include "trainer/commands/command.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "model/base/log.h"
#include "model/device/cpu/threads.h"
#include "parallel/comm/launcher.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/supervise/launch/start_ranks.h"
#include "trainer/supervise/watchdog/run_rank.h"
#include "trainer/tools/verify/configs.h"
#include "trainer/tools/verify/verification.h"

namespace trireme {
namespace {

struct VerifyOptions {
  std::string config, against;
  std::int64_t steps = 2;
  int ranks = 0;  // 0: not given
  bool synthetic = false, json = false;
};

std::vector<std::string> command_line(int ranks, const VerifyOptions& options,
                                      const std::vector<Override>& overrides) {
  std::vector<std::string> all{"verify",    options.config,
                               "--against", options.against,
                               "--steps",   std::to_string(options.steps),
                               "--ranks",   std::to_string(ranks)};
  if (options.synthetic) all.emplace_back("--synthetic");
  if (options.json) all.emplace_back("--json");
  for (const auto& [key, value] : overrides) all.push_back("--" + key + "=" + value);
  return all;
}

ExitCode compare(World& world, const verify::Configs& configs, const VerifyOptions& options) {
  const RunConfig& config = configs.subject.config;
  const Device device = open_device(config.job.device, world.local_rank());
  world.use_device(device, config.job.reproducible);
  cpu::use_threads(config.job.threads, world.local_size());
  const auto mistake = verify::Mistake::from(environment_variable);
  if (mistake && world.rank() == 0) {
    log_warning("{}: {}", verify::Mistake::kVariable,
                environment_variable(verify::Mistake::kVariable).value_or(""));
  }
  const verify::Finding finding = verify::Verification(world, device,
                                                       {.subject = config,
                                                        .reference = configs.reference.config,
                                                        .synthetic = options.synthetic,
                                                        .mistake = mistake.get()})
                                      .run(options.steps);
  if (world.rank() == 0) {
    fmt::print("{}", options.json ? json_of(finding) : text_of(finding));
    std::fflush(stdout);
  }
  return finding.difference ? ExitCode::kDiverged : ExitCode::kDone;
}

ExitCode verify_layouts(const VerifyOptions& options, const std::vector<Override>& overrides) {
  const int launched = launched_ranks(environment_variable);
  const verify::Configs configs = verify::read_configs(options.config, overrides, options.against,
                                                       launched > 1 ? launched : options.ranks);
  if (launched == 1 && configs.ranks > 1) {
    become_ranks(configs.ranks, command_line(configs.ranks, options, overrides));
  }
  World world(environment_variable);
  if (world.size() != configs.ranks) {
    throw on_all_ranks(ConfigError(say("the larger layout needs ", configs.ranks, " ranks, but ",
                                       world.size(), " were started")));
  }
  const ElasticConfig& elastic = configs.subject.config.elastic;
  const WatchOptions watch{.heartbeat_timeout_s = elastic.heartbeat_timeout_s,
                           .stall = {elastic.stall_timeout_s, elastic.load_save_timeout_s}};
  return run_rank(world, watch, [&] { return compare(world, configs, options); });
}

}  // namespace

Command make_verify(CLI::App& program, const std::vector<Override>& overrides) {
  CLI::App* app = program.add_subcommand(
      "verify", "Check that two layouts compute the same loss, gradients and weights");
  const auto options = std::make_shared<VerifyOptions>();
  app->add_option("CONFIG", options->config, "Config file (TOML)")->required();
  app->add_option("--against", options->against,
                  "Reference layout: the keys that differ from CONFIG, as \"key=value ...\"; "
                  "alone: one rank; float64: one rank in double precision on the CPU")
      ->default_str("alone");
  app->add_option("--steps", options->steps, "Number of steps to compare")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}))
      ->capture_default_str();
  app->add_option("-n,--ranks", options->ranks,
                  "Number of ranks, if a data-parallel degree is 0 (default: as few as the other "
                  "degrees need)")
      ->check(CLI::Range(1, 1 << 20));
  app->add_flag("--synthetic", options->synthetic, "Use random tokens instead of token files");
  app->add_flag("--json", options->json, "Print the result as JSON");
  app->footer(
      "Trains both layouts from the same weights on the same samples and compares sample order,\n"
      "losses and every gradient; then, from equal gradients, grad_norm, optimizer state and\n"
      "weights. Writes no files. If they differ, fails with the first parameter that\n"
      "differs and the likely cause. The tolerance depends on training.dtype and is zero where\n"
      "job.reproducible guarantees equal bits. When they agree, code paths that these steps did "
      "not\n"
      "exercise are listed, such as gradient clipping that never triggered.\n"
      "Norm gains and biases start slightly off one and zero so that errors in them show, and "
      "there\n"
      "is no warmup. Both models are in memory at once. Keys on the command line apply to both:\n"
      "use --model.num_hidden_layers=2, for example, to make float64 affordable.\n"
      "Starts the ranks with mpirun, unless it already runs under mpirun or srun.\n"
      "TRIREME_INJECT_MISTAKE=NAME plants a bug, such as lost-norm-sums, to show that verify "
      "finds\n"
      "it; an unknown NAME lists all of them.\n"
      "\n"
      "Example: trireme verify run.toml --against \"parallelism.tensor=1 parallelism.pipeline=2\"");
  return {app, [options, &overrides] { return verify_layouts(*options, overrides); }, true};
}

}  // namespace trireme
