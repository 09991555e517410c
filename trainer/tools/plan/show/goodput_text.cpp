#include "trainer/tools/plan/show/goodput_text.h"

#include <fmt/format.h>

#include "model/base/human.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

std::string shares_text(const GoodputPlan& plan) {
  std::string text =
      fmt::format("{:.2f} % of the time in steps that count:", 100 * plan.configured.shares.useful);
  for (const GoodputPart& part : kGoodputLosses) {
    const double share = 100 * plan.configured.shares.*part.share;
    if (share >= 0.005)
      text += fmt::format("{} {} {:.2f} %", text.back() == ':' ? "" : ",", part.name, share);
  }
  return text;
}

std::string failures_text(const RunPlan& plan) {
  const GoodputPlan& goodput = *plan.goodput;
  const double between = goodput.costs.model.between;
  std::string text =
      fmt::format("one in {} ({:.3g} per device and year), {} in the run", human_duration(between),
                  kSecondsPerYear / (between * plan.ranks()), human_count(goodput.failures));
  const std::int64_t most = plan.config.elastic.max_restarts;
  if (goodput.failures > static_cast<double>(most)) {
    text += fmt::format("; elastic.max_restarts = {} ends the run before", most);
  }
  return text;
}

std::string interval_text(const IntervalPlan& plan, double step) {
  std::string text = fmt::format("checkpoint.interval = {} ({})", plan.disk,
                                 human_duration(static_cast<double>(plan.disk) * step));
  if (plan.memory > 0) {
    text += fmt::format(" and elastic.memory_interval = {} ({})", plan.memory,
                        human_duration(static_cast<double>(plan.memory) * step));
  }
  return text;
}

std::string save_text(const RunPlan& plan) {
  const GoodputPlan& goodput = *plan.goodput;
  const FailureModel& model = goodput.costs.model;
  const double step = plan.estimate.seconds;
  std::string text = fmt::format(
      "{}; best: {}, {:.2f} % goodput; checkpoints every {} by Daly, {} by Young; a "
      "save blocks training for {} ({})",
      interval_text(goodput.configured, step), interval_text(goodput.best, step),
      100 * goodput.best.shares.useful, human_duration(goodput.daly), human_duration(goodput.young),
      human_duration(model.save), goodput.costs.saves_are);
  if (model.snapshot > 0) {
    text += fmt::format(", a snapshot in memory for {}", human_duration(model.snapshot));
  }
  return text;
}

std::string restart_text(const GoodputPlan& plan) {
  const FailureModel& model = plan.costs.model;
  std::string text;
  for (const FailureKind& kind : model.kinds) {
    text +=
        fmt::format("{}{:.1f} % {}{}: detected after {}, restarted in {}", text.empty() ? "" : "; ",
                    100 * kind.share, kind.name, kind.from_disk ? " (from disk)" : "",
                    human_duration(kind.detect), human_duration(kind.restart));
  }
  text += fmt::format(" ({})", plan.costs.restarts_are);
  if (model.repair.seconds > 0) {
    text += fmt::format("; {:.3g} nodes missing on average, {:.2g} % of the speed each",
                        model.missing_nodes(), 100 * model.repair.speed_lost);
  }
  return text;
}

Json interval_json(const IntervalPlan& plan) {
  Json shares{{"useful", plan.shares.useful}};
  for (const GoodputPart& part : kGoodputLosses) shares[part.key] = plan.shares.*part.share;
  return {{"checkpoint_steps", plan.disk}, {"memory_steps", plan.memory}, {"shares", shares}};
}

Json model_json(const FailureModel& model, const SaveIntervals& intervals) {
  Json kinds = Json::array();
  for (const FailureKind& kind : model.kinds) {
    kinds.push_back({{"name", kind.name},
                     {"share", kind.share},
                     {"detect_seconds", kind.detect},
                     {"restart_seconds", kind.restart},
                     {"from_disk", kind.from_disk},
                     {"loses_node", kind.loses_node}});
  }
  return {{"between_failures_seconds", model.between},
          {"kinds", kinds},
          {"interval_seconds", intervals.seconds},
          {"intervals_per_checkpoint", intervals.per_disk},
          {"snapshot_seconds", model.snapshot},
          {"save_seconds", model.save},
          {"write_seconds", model.write},
          {"repair_seconds", model.repair.seconds},
          {"speed_lost_per_node", model.repair.speed_lost},
          {"growth_seconds", model.repair.growth}};
}

}  // namespace

std::vector<std::pair<std::string, std::string>> goodput_rows(const RunPlan& plan) {
  return {{"goodput", shares_text(*plan.goodput)},
          {"failures", failures_text(plan)},
          {"save", save_text(plan)},
          {"restart", restart_text(*plan.goodput)}};
}

Json goodput_json(const RunPlan& plan) {
  const GoodputPlan& goodput = *plan.goodput;
  const FailureCosts& costs = goodput.costs;
  return {
      {"goodput", goodput.configured.shares.useful},
      {"configured", interval_json(goodput.configured)},
      {"best", interval_json(goodput.best)},
      {"young_seconds", goodput.young},
      {"daly_seconds", goodput.daly},
      {"failures", goodput.failures},
      {"save_seconds_are", costs.saves_are},
      {"restart_seconds_are", costs.restarts_are},
      {"model", model_json(costs.model, intervals_of(goodput.configured, plan.estimate.seconds))}};
}

}  // namespace trireme
