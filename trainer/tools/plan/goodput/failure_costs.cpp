#include "trainer/tools/plan/goodput/failure_costs.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/base/error.h"
#include "trainer/tools/plan/goodput/assets.h"
#include "trainer/tools/plan/goodput/measured_costs.h"

namespace trireme {
namespace {

// Bandwidth of a save without a measurement: a snapshot over PCIe or within host memory, and the
// part of the file system's bandwidth that one rank gets.
constexpr double kSnapshotBandwidth = 10e9, kFileBandwidth = 1e9;

const nlohmann::json& published() {
  static const nlohmann::json all = nlohmann::json::parse(kFailuresJson);
  return all;
}

double number(const char* key) {
  return published().at(key).get<double>();
}

double own(const char* kind, const char* part) {
  return published().at("measured").at(kind).at(part).get<double>();
}

// Seconds in which every rank moves `state` bytes, `all` together, from or to the file system.
double storage_seconds(const SavedRun& run, const FailureOptions& options, double all) {
  const double together =
      options.storage_gigabytes > 0 ? options.storage_gigabytes : number("storage_gigabytes");
  return std::max(run.state_bytes / kFileBandwidth, all / (1e9 * together));
}

struct Restart {
  double from_disk = 0, from_memory = 0;
};

// Of a kind of failure, from its detection to the first new step.
Restart restart_of(const char* kind, const SavedRun& run, const FailureOptions& options,
                   const std::optional<double>& measured) {
  if (options.restart_seconds > 0) return {options.restart_seconds, options.restart_seconds};
  const double warm_up = number("warm_up_steps") * run.step_seconds;
  if (measured) return {*measured + warm_up, *measured + warm_up};
  const double rest = number("launch_seconds") + number("contexts_seconds") + warm_up +
                      own(kind, "recover") - own(kind, "detect");
  const auto ranks = static_cast<double>(world_size(run.config.parallelism));
  return {rest + storage_seconds(run, options, ranks * run.state_bytes),
          rest + run.state_bytes / kSnapshotBandwidth};
}

// Data-parallel ranks that end with a node: those with a rank on it.
double data_ranks_of_node(const SavedRun& run) {
  const ParallelismConfig& layout = run.config.parallelism;
  const std::int64_t each = world_size(layout) / data_ranks(layout);
  return std::ceil(static_cast<double>(run.network.ranks_of_host()) / static_cast<double>(each));
}

bool is_elastic(const SavedRun& run) {
  const auto all = static_cast<double>(data_ranks(run.config.parallelism));
  return all - data_ranks_of_node(run) >= static_cast<double>(run.config.elastic.min_data_parallel);
}

void add_kinds(FailureModel& model, const SavedRun& run, const FailureOptions& options,
               const std::optional<double>& measured) {
  const ElasticConfig& elastic = run.config.elastic;
  if (elastic.stall_timeout_s <= 0) {
    throw ConfigError(
        "elastic.stall_timeout_s = 0: a rank that hangs is never detected, so the time that "
        "failures take has no bound; set it");
  }
  const double node = number("node_failures") / number("failures"), hang = number("hang_share");
  const bool has_nodes = world_size(run.config.parallelism) > run.network.ranks_of_host();
  const double lost_copy = number("lost_copy_share");
  struct Kind {
    const char* name;
    double share, detect, lost;
  };
  for (const Kind& kind :
       {Kind{"kill", 1 - node - hang, own("kill", "detect"), lost_copy / 2},
        Kind{"hang", hang, elastic.stall_timeout_s, lost_copy / 2},
        Kind{"node", node, elastic.heartbeat_timeout_s, has_nodes ? lost_copy : 1}}) {
    Restart restart = restart_of(kind.name, run, options, measured);
    const bool is_node = std::string_view(kind.name) == "node";
    if (is_node && !is_elastic(run)) {
      restart.from_disk += 3600 * options.repair_hours;
      restart.from_memory += 3600 * options.repair_hours;
    }
    const double to_disk = elastic.memory_interval > 0 ? kind.lost : 1;
    const auto add = [&](double share, double seconds, bool from_disk) {
      if (share == 0) return;
      model.kinds.push_back({.name = kind.name,
                             .share = kind.share * share,
                             .detect = kind.detect,
                             .restart = seconds,
                             .from_disk = from_disk,
                             .loses_node = is_node});
    };
    add(1 - to_disk, restart.from_memory, false);
    add(to_disk, restart.from_disk, true);
  }
}

}  // namespace

double published_failures_per_device_year() {
  return number("failures") / number("gpus") / (number("days") * 86400 / kSecondsPerYear);
}

FailureCosts failure_costs(const SavedRun& run, const FailureOptions& options) {
  const auto ranks = static_cast<double>(world_size(run.config.parallelism));
  const MeasuredCosts measured = measured_costs(run.config.job.dump_folder);
  FailureCosts costs;
  FailureModel& model = costs.model;
  model.between = options.mtbf_hours > 0 ? 3600 * options.mtbf_hours
                                         : kSecondsPerYear / (options.per_device_year * ranks);
  const double snapshot = run.state_bytes / kSnapshotBandwidth;
  const double write = storage_seconds(run, options, run.checkpoint_bytes);
  const bool is_async = run.config.checkpoint.async;
  constexpr const char *kGiven = "given", *kMeasured = "measured in the run folder";
  costs.saves_are = options.save_seconds > 0 ? kGiven : measured.save ? kMeasured : "assumed";
  model.save = options.save_seconds > 0 ? options.save_seconds
                                        : measured.save.value_or(is_async ? snapshot : write);
  model.write = is_async ? write : 0;
  if (run.config.elastic.memory_interval > 0) {
    model.snapshot = measured.snapshot.value_or(snapshot);
  }
  costs.restarts_are = options.restart_seconds > 0 ? kGiven
                       : measured.restart          ? kMeasured
                                                   : "assumed";
  add_kinds(model, run, options, measured.restart);
  if (options.repair_hours > 0 && is_elastic(run)) {
    model.repair = {
        .seconds = 3600 * options.repair_hours,
        .speed_lost =
            data_ranks_of_node(run) / static_cast<double>(data_ranks(run.config.parallelism)),
        .growth = model.save + restart_of("kill", run, options, measured.restart).from_disk};
  }
  return costs;
}

}  // namespace trireme
