#include "trainer/tools/plan/goodput/goodput_plan.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "model/base/error.h"
#include "model/base/human.h"
#include "trainer/tools/plan/goodput/save_interval.h"

namespace trireme {
namespace {

// Goodput below which a run cannot be said to train.
constexpr double kLeastGoodput = 0.01;

// Integer in [least, most] of the greatest `value`, which rises and then falls.
template <class Value>
std::int64_t peak_of(std::int64_t least, std::int64_t most, const Value& value) {
  while (least < most) {
    const std::int64_t middle = least + (most - least) / 2;
    if (value(middle) < value(middle + 1)) {
      least = middle + 1;
    } else {
      most = middle;
    }
  }
  return least;
}

// Upper bound of the search for an interval in steps: several times the optimum to first order.
std::int64_t longest_interval(double save, double between, double step, std::int64_t steps) {
  const double longest = 4 * young_interval(save, between) / step;
  return longest < static_cast<double>(steps) ? std::max<std::int64_t>(1, std::llround(longest))
                                              : steps;
}

IntervalPlan configured_intervals(const RunConfig& config, std::int64_t steps) {
  const std::int64_t disk = config.checkpoint.interval;
  return {.disk = disk > 0 ? std::min(disk, steps) : steps,
          .memory = std::min(config.elastic.memory_interval, steps)};
}

std::string interval_keys(const IntervalPlan& plan) {
  std::string text = say("checkpoint.interval = ", plan.disk);
  if (plan.memory > 0) text += say(" and elastic.memory_interval = ", plan.memory);
  return text;
}

void require_time_to_train(const GoodputPlan& plan, const FailureOptions& options) {
  if (plan.configured.shares.useful >= kLeastGoodput) return;
  const bool is_rate = options.mtbf_hours <= 0;
  throw ConfigError(
      say(is_rate ? "--failures-per-device-year " : "--mtbf ",
          is_rate ? options.per_device_year : options.mtbf_hours, ": a failure every ",
          human_duration(plan.costs.model.between), " leaves no time to train with ",
          interval_keys(plan.configured),
          plan.best.shares.useful >= kLeastGoodput ? "; better: " + interval_keys(plan.best) : ""));
}

}  // namespace

SaveIntervals intervals_of(const IntervalPlan& plan, double step_seconds) {
  const auto disk = static_cast<double>(plan.disk), memory = static_cast<double>(plan.memory);
  if (plan.memory == 0) return {.seconds = disk * step_seconds, .per_disk = 1};
  return {.seconds = memory * step_seconds, .per_disk = std::max(1.0, std::round(disk / memory))};
}

IntervalPlan best_intervals(const FailureModel& model, double step_seconds, std::int64_t steps,
                            bool has_memory) {
  const auto written =
      static_cast<std::int64_t>(std::min(std::ceil(model.write / step_seconds), 1e15));
  const std::int64_t least = std::clamp<std::int64_t>(written, 1, steps);
  const std::int64_t longest =
      std::max(least, longest_interval(model.save + model.write, model.between_disk_failures(),
                                       step_seconds, steps));
  const auto goodput = [&](std::int64_t disk, std::int64_t memory) {
    return expected_goodput(model, intervals_of({.disk = disk, .memory = memory}, step_seconds))
        .useful;
  };
  IntervalPlan best;
  if (has_memory) {
    // Checkpoints are a whole number of snapshots apart.
    const auto best_count = [&](std::int64_t memory) {
      const auto per = [&](std::int64_t disk) { return std::max<std::int64_t>(1, disk / memory); };
      return peak_of(per(least + memory - 1), std::max(per(least + memory - 1), per(longest)),
                     [&](std::int64_t count) { return goodput(count * memory, memory); });
    };
    const std::int64_t most =
        longest_interval(model.snapshot, model.between_memory_failures(), step_seconds, steps);
    best.memory = peak_of(
        1, most, [&](std::int64_t memory) { return goodput(best_count(memory) * memory, memory); });
    best.disk = best_count(best.memory) * best.memory;
  } else {
    best.disk = peak_of(least, longest, [&](std::int64_t disk) { return goodput(disk, 0); });
  }
  best.shares = expected_goodput(model, intervals_of(best, step_seconds));
  return best;
}

GoodputPlan plan_goodput(const SavedRun& run, const FailureOptions& options, std::int64_t steps,
                         double seconds) {
  const bool has_memory = run.config.elastic.memory_interval > 0;
  GoodputPlan plan{.costs = failure_costs(run, options),
                   .configured = configured_intervals(run.config, steps)};
  const FailureModel& model = plan.costs.model;
  plan.configured.shares = expected_goodput(model, intervals_of(plan.configured, run.step_seconds));
  plan.best = best_intervals(model, run.step_seconds, steps, has_memory);
  plan.young = young_interval(model.save, model.between_disk_failures());
  plan.daly = daly_interval(model.save, model.between_disk_failures());
  require_time_to_train(plan, options);
  plan.failures = seconds / plan.configured.shares.useful / model.between;
  return plan;
}

}  // namespace trireme
