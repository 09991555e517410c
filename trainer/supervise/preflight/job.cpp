#include "trainer/supervise/preflight/job.h"

#include <fmt/format.h>

#include <cstdio>
#include <numeric>
#include <optional>

#include "model/base/file.h"
#include "model/device/cpu/threads.h"
#include "trainer/config/effective.h"
#include "trainer/config/for_ranks.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/supervise/preflight/check.h"
#include "trainer/supervise/watchdog/run_rank.h"
#include "trainer/telemetry/events_log.h"

namespace trireme::preflight {
namespace {

constexpr double kSeconds = 0.25, kQuickSeconds = 0.05;  // duration of the matmul check

std::unique_ptr<Communicator> all_ranks(World& world) {
  std::vector<int> ranks(world.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return world.split("preflight", ranks);
}

RunConfig config_for(const LoadedConfig& loaded, int ranks) {
  try {
    return for_ranks(loaded, ranks).config;
  } catch (const ConfigError& error) {
    throw on_all_ranks(ConfigError(error.what()));
  }
}

void print(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

class DoctorRun {
 public:
  DoctorRun(const Job& job, World& world, std::filesystem::path json)
      : job_(job),
        world_(world),
        json_(std::move(json)),
        all_(all_ranks(world)),
        team_(*all_),
        preflight_(team_, world.hosts(), print) {}

  ExitCode run() {
    const RunConfig& asked = job_.loaded.config;
    const std::string text = effective_toml(job_.loaded);
    preflight_.make(same_program(text));
    settle();
    preflight_.make(process_limits(world_.size()));
    preflight_.make(clocks(*all_));
    preflight_.make(device_health(asked.job.device, world_.local_rank()));
    settle();
    const Device device = open_device(asked.job.device, world_.local_rank());
    world_.use_device(device, asked.job.reproducible);
    preflight_.make(launch(world_));
    cpu::use_threads(asked.job.threads, world_.local_size());
    check_run(config_for(job_.loaded, world_.size()), device);
    settle();
    if (team_.leads()) print(fmt::format("all checks passed on {} ranks", world_.size()));
    return ExitCode::kDone;
  }

 private:
  void check_run(const RunConfig& config, Device device) {
    const RankGroups groups(world_, config.parallelism, config.model);
    std::optional<data::SampleSource> data;
    const auto open = [&]() -> const data::SampleSource& {
      return data ? *data : data.emplace(job_.open_data(config));
    };
    preflight_.make(memory_room(config, world_, groups, device));
    preflight_.make(matrix_product(config.training.dtype, device, kSeconds, *all_));
    preflight_.make(axes(groups, device, /*thorough=*/true));
    preflight_.make(folders(config, groups, device, /*thorough=*/true));
    preflight_.make(token_files(open));
  }
  // Writes the report and throws if a check has failed.
  void settle() {
    team_.led([&] {
      if (!json_.empty()) replace_text(json_, preflight_.report().dump(2) + "\n");
    });
    preflight_.require_passed();
  }

  const Job& job_;
  World& world_;
  std::filesystem::path json_;
  std::unique_ptr<Communicator> all_;
  Team team_;
  Preflight preflight_;
};

}  // namespace

ExitCode examine(const Job& job, const std::filesystem::path& json) {
  World world(environment_variable);
  const ElasticConfig& elastic = job.loaded.config.elastic;
  const WatchOptions watch{.heartbeat_timeout_s = elastic.heartbeat_timeout_s,
                           .stall = {elastic.stall_timeout_s, elastic.load_save_timeout_s}};
  return run_rank(world, watch, [&] { return DoctorRun(job, world, json).run(); });
}

void require_same_program(World& world, const LoadedConfig& loaded) {
  const std::unique_ptr<Communicator> all = all_ranks(world);
  Preflight preflight(Team(*all), world.hosts());
  const std::string text = effective_toml(loaded);
  preflight.make(same_program(text));
  // Recorded only if the run folder exists, as it does under trireme launch.
  const std::filesystem::path& run_dir = loaded.config.job.dump_folder;
  if (world.rank() == 0 && !preflight.passed() && std::filesystem::exists(run_dir)) {
    EventsLog(run_dir / "events.jsonl").record("preflight", 0, preflight.report());
  }
  preflight.require_passed();
}

void make_quick(Preflight& preflight, const RunConfig& config, const World& world,
                const RankGroups& groups, Device device) {
  preflight.make(process_limits(world.size()));
  preflight.make(device_health(config.job.device, world.local_rank()));
  preflight.make(matrix_product(config.training.dtype, device, kQuickSeconds, *groups.all));
  preflight.make(axes(groups, device, /*thorough=*/false));
  preflight.make(folders(config, groups, device, /*thorough=*/false));
}

}  // namespace trireme::preflight
