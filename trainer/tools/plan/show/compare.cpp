#include "trainer/tools/plan/show/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "model/base/human.h"
#include "trainer/config/difference.h"
#include "trainer/tools/plan/device/matmul_format.h"
#include "trainer/tools/plan/memory_tree.h"
#include "trainer/tools/plan/show/plan_json.h"
#include "trainer/tools/plan/show/plan_text.h"

namespace trireme {
namespace {

using Unit = ComparedRow::Unit;

double bytes_along(const RunPlan& plan, std::string_view axis) {
  for (const AxisPlan& along : plan.traffic) {
    if (along.axis == axis) return along.bytes;
  }
  return 0;
}

const PipelinePlace& largest_of(const RunPlan& plan) {
  return plan.layout.places[static_cast<std::size_t>(largest_place(plan.layout))];
}

class Rows {
 public:
  Rows(const RunPlan& a, const RunPlan& b) : a_(a), b_(b) {}

  template <class Figure>
  void add(const char* group, const std::string& name, Unit unit, const Figure& figure) {
    rows_.push_back(
        {group, name, unit, static_cast<double>(figure(a_)), static_cast<double>(figure(b_))});
  }
  void add_step();
  void add_memory();
  void add_run(const PlanOptions& options);
  void add_goodput();
  void add_inference();
  std::vector<ComparedRow> take() { return std::move(rows_); }

 private:
  const RunPlan& a_;
  const RunPlan& b_;
  std::vector<ComparedRow> rows_;
};

void Rows::add_step() {
  add("step", "time", Unit::kSeconds, [](const RunPlan& p) { return p.estimate.seconds; });
  for (const TimePart& part : kTimeParts) {
    add("step", part.name, Unit::kSeconds,
        [&](const RunPlan& p) { return p.estimate.parts.*part.seconds; });
  }
  add("speed", "tokens/s", Unit::kCount, [](const RunPlan& p) { return p.tokens_per_second; });
  add("speed", "tokens/s per rank", Unit::kCount,
      [](const RunPlan& p) { return p.tokens_per_second / p.ranks(); });
  add("speed", "MFU", Unit::kPercent, [](const RunPlan& p) { return p.mfu; });
  add("speed", "ranks", Unit::kCount, [](const RunPlan& p) { return p.ranks(); });
}

void Rows::add_memory() {
  add("memory", "largest rank", Unit::kBytes,
      [](const RunPlan& p) { return p.layout.most_device_bytes(); });
  const auto classes = largest_of(a_).step.memory.classes();
  for (std::size_t i = 0; i < classes.size(); ++i) {
    add("memory", classes[i].first, Unit::kBytes,
        [&](const RunPlan& p) { return largest_of(p).step.memory.classes()[i].second; });
  }
  add("memory", "snapshot on the CPU", Unit::kBytes, [](const RunPlan& p) {
    return largest_of(p).device_bytes - largest_of(p).step.memory.total();
  });
  add("memory", "available", Unit::kBytes, [](const RunPlan& p) { return p.available; });
  add("memory", "host, per rank", Unit::kBytes,
      [](const RunPlan& p) { return p.layout.most_host_bytes(); });
}

void Rows::add_run(const PlanOptions& options) {
  for (const char* axis : kTrafficAxes) {
    add("traffic", axis, Unit::kBytes, [&](const RunPlan& p) { return bytes_along(p, axis); });
  }
  add("run", "parameters", Unit::kCount, [](const RunPlan& p) { return p.model.parameters; });
  add("run", "tokens", Unit::kCount, [](const RunPlan& p) { return p.tokens; });
  add("run", "days", Unit::kDays, [](const RunPlan& p) { return p.seconds / 86400; });
  add("run", "device-hours", Unit::kCount, [](const RunPlan& p) { return p.device_hours; });
  add("run", "checkpoint", Unit::kBytes, [](const RunPlan& p) { return p.model.checkpoint_bytes; });
  if (options.failures.are_known()) add_goodput();
  if (options.inference_tokens > 0) add_inference();
  if (options.price <= 0) return;
  add("run", "cost", Unit::kMoney, [](const RunPlan& p) { return p.cost; });
  add("run", "cost per million tokens", Unit::kMoney,
      [](const RunPlan& p) { return p.cost / p.tokens * 1e6; });
}

void Rows::add_goodput() {
  const auto add_share = [&](const char* name, double GoodputShares::*share) {
    add("goodput", name, Unit::kPercent,
        [&](const RunPlan& p) { return p.goodput->configured.shares.*share; });
  };
  add_share("steps that count", &GoodputShares::useful);
  for (const GoodputPart& part : kGoodputLosses) add_share(part.name, part.share);
  add("goodput", "with the best intervals", Unit::kPercent,
      [](const RunPlan& p) { return p.goodput->best.shares.useful; });
  add("goodput", "failures", Unit::kCount, [](const RunPlan& p) { return p.goodput->failures; });
  add("goodput", "days with failures", Unit::kDays,
      [](const RunPlan& p) { return p.elapsed / 86400; });
}

void Rows::add_inference() {
  add("inference", "ZFLOP with training", Unit::kCount,
      [](const RunPlan& p) { return p.inference.front().own * 1e-21; });
  for (std::size_t i = 0; i < a_.inference.size(); ++i) {
    const std::string source = a_.inference[i].source;
    add("inference", "over least, " + source.substr(0, source.find(' ')), Unit::kPercent,
        [&](const RunPlan& p) { return p.inference[i].own / p.inference[i].least - 1; });
  }
}

std::string value_text(double value, Unit unit) {
  const double size = std::abs(value);
  const char* const sign = value < 0 ? "-" : "";
  switch (unit) {
    case Unit::kSeconds:
      return size < 1 ? fmt::format("{:.4g} ms", value * 1e3) : fmt::format("{:.3f} s", value);
    case Unit::kBytes:
      return sign + human_bytes(static_cast<std::uint64_t>(size));
    case Unit::kCount:
      return sign + human_count(size);
    case Unit::kPercent:
      return fmt::format("{:.1f} %", 100 * value);
    case Unit::kDays:
      return fmt::format("{:.3g}", value);
    case Unit::kMoney:
      return fmt::format("{:.6g}", value);
  }
  return {};
}

std::string row_text(const ComparedRow& row) {
  const double difference = row.difference();
  return fmt::format(
      "{:<9}{:<25}{:>16}{:>16}{:>16}{:>10}\n", row.group, row.name, value_text(row.a, row.unit),
      value_text(row.b, row.unit),
      difference == 0 ? "same" : (difference > 0 ? "+" : "") + value_text(difference, row.unit),
      row.a == 0 ? std::string("-") : fmt::format("{:.3f}", row.ratio()));
}

std::string value_of_key(const std::string& toml) {
  return toml.empty() ? "(does not apply)" : toml;
}

}  // namespace

std::vector<ComparedRow> compared_rows(const RunPlan& a, const RunPlan& b,
                                       const PlanOptions& options) {
  Rows rows(a, b);
  rows.add_step();
  rows.add_memory();
  rows.add_run(options);
  return rows.take();
}

std::string comparison_text(const NamedPlan& a, const NamedPlan& b, const PlanOptions& options) {
  std::string text =
      "prediction, nothing was run; memory is that of the largest rank, traffic what "
      "a rank sends per step\n";
  for (const auto& [letter, of] : {std::pair{"A", &a}, std::pair{"B", &b}}) {
    text += fmt::format("{}: {}, {} on {} x {}: {}\n", letter, of->name,
                        model_name(of->plan.config), world_size(of->plan.config.parallelism),
                        of->plan.device.name, of->plan.fits() ? "it fits" : "IT DOES NOT FIT");
  }
  if (assumes_format(a.plan.device)) {
    text += "matmuls: " + assumption_text(a.plan.device) + "\n";
  }
  text += fmt::format("\n{:<34}{:>16}{:>16}{:>16}{:>10}\n", "", "A", "B", "B - A", "B / A");
  for (const ComparedRow& row : compared_rows(a.plan, b.plan, options)) {
    if (row.a != 0 || row.b != 0) text += row_text(row);
  }
  const std::vector<Change> changes = difference(a.plan.config, b.plan.config);
  text += changes.empty() ? "\nthe configs have the same values\n" : "\nconfig keys that differ\n";
  std::size_t width = 0;
  for (const Change& change : changes) width = std::max(width, change.key.size());
  for (const Change& change : changes) {
    text += fmt::format("  {:<{}}  {} -> {}\n", change.key, width, value_of_key(change.before),
                        value_of_key(change.after));
  }
  return text;
}

nlohmann::ordered_json comparison_json(const NamedPlan& a, const NamedPlan& b,
                                       const PlanOptions& options) {
  using Json = nlohmann::ordered_json;
  Json json{{"rows", Json::array()}, {"keys", Json::array()}};
  for (const ComparedRow& row : compared_rows(a.plan, b.plan, options)) {
    json["rows"].push_back({{"group", row.group},
                            {"name", row.name},
                            {"a", row.a},
                            {"b", row.b},
                            {"difference", row.difference()},
                            {"ratio", row.a == 0 ? Json() : Json(row.ratio())}});
  }
  const auto value = [](const std::string& toml) { return toml.empty() ? Json() : Json(toml); };
  for (const Change& change : difference(a.plan.config, b.plan.config)) {
    json["keys"].push_back(
        {{"key", change.key}, {"a", value(change.before)}, {"b", value(change.after)}});
  }
  for (const auto& [letter, of] : {std::pair{"a", &a}, std::pair{"b", &b}}) {
    json[letter] = {{"config", of->name}, {"plan", plan_json(of->plan, options)}};
  }
  return json;
}

}  // namespace trireme
