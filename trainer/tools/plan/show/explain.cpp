#include "trainer/tools/plan/show/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "model/base/human.h"

namespace trireme {
namespace {

enum class Amount : std::uint8_t { kSeconds, kBytes };

constexpr double kFolded = 0.01;  // of the whole

// Down to microseconds, with three digits.
std::string node_seconds_text(double seconds) {
  if (seconds >= 0.9995) return fmt::format("{:.3f} s", seconds);
  if (seconds >= 0.9995e-3) return fmt::format("{:.4g} ms", seconds * 1e3);
  return fmt::format("{:.3g} us", seconds * 1e6);
}

std::string node_bytes_text(double bytes) {
  return human_bytes(static_cast<std::uint64_t>(std::max(bytes, 0.0)));
}

std::string node_flops_text(double flops) {
  constexpr std::array kUnits{"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"};
  std::size_t unit = 0;
  for (; flops >= 999.5 && unit + 1 < kUnits.size(); ++unit) flops /= 1000;
  return fmt::format("{:.3g} {}", flops, kUnits[unit]);
}

class TreeText {
 public:
  TreeText(Amount amount, double whole) : amount_(amount), whole_(whole) {}

  void add(const PlanNode& node, std::size_t depth) {
    add_line(node, depth);
    PlanNode folded;
    for (const PlanNode& child : node.children) {
      const bool is_small = std::abs(child.amount) < kFolded * whole_;
      if (is_small) folded.add(child);
      if (!is_small) add(child, depth + 1);
    }
    const std::size_t count = folded.children.size();
    if (count == 0) return;
    if (count > 1) folded.name = fmt::format("{} others below 1 %", count);
    add_line(count == 1 ? folded.children.front() : folded, depth + 1);
  }
  const std::string& text() const { return text_; }

 private:
  void add_line(const PlanNode& node, std::size_t depth) {
    std::string label(2 * depth, ' ');
    label += node.name;
    if (!node.detail.empty()) label += ": " + node.detail;
    const bool is_time = amount_ == Amount::kSeconds;
    std::string line =
        fmt::format("{:<62}{:>11}{:>8.1f} %", label,
                    is_time ? node_seconds_text(node.amount) : node_bytes_text(node.amount),
                    100 * node.amount / whole_);
    if (is_time && node.count > 0) {
      line += fmt::format("{:>10}", grouped(std::llround(node.count)));
      const bool computes = node.flops > 0;
      line += fmt::format("{:>12}  {}",
                          computes ? node_flops_text(node.flops) : node_bytes_text(node.bytes),
                          node.bound);
    }
    text_ += line + "\n";
  }

  const Amount amount_;
  const double whole_;
  std::string text_;
};

std::string tree_text(const PlanNode& root, Amount amount) {
  TreeText text(amount, root.amount);
  text.add(root, 0);
  return text.text();
}

nlohmann::ordered_json node_json(const PlanNode& node, Amount amount) {
  const bool is_time = amount == Amount::kSeconds;
  nlohmann::ordered_json json{{"name", node.name}};
  if (!node.detail.empty()) json["detail"] = node.detail;
  json[is_time ? "seconds" : "bytes"] = node.amount;
  if (node.count > 0) json["count"] = node.count;
  if (node.flops > 0) json["flops"] = node.flops;
  if (is_time && node.bytes > 0) json["bytes"] = node.bytes;
  if (!node.bound.empty()) json["bound"] = node.bound;
  for (const PlanNode& child : node.children) {
    json["children"].push_back(node_json(child, amount));
  }
  return json;
}

}  // namespace

std::string explain_text(const RunPlan& plan) {
  const Explanation& trees = plan.explanation.value();
  const auto rank = [&](int place) {
    return plan.config.parallelism.pipeline == 1 ? std::string("of a rank")
                                                 : fmt::format("of pipeline rank {}", place);
  };
  return fmt::format(
      "time of a step {}: forward to backward are computation, communication is what it does not "
      "overlap\n{:<62}{:>11}{:>10}{:>10}{:>12}  {}\n{}\nmemory {}, which needs most\n{}",
      rank(plan.estimate.sums.busiest), "", "", "share", "count", "work", "bound by",
      tree_text(trees.time, Amount::kSeconds), rank(trees.largest_place),
      tree_text(trees.memory, Amount::kBytes));
}

nlohmann::ordered_json explain_json(const RunPlan& plan) {
  const Explanation& trees = plan.explanation.value();
  return {{"time",
           {{"pipeline_rank", plan.estimate.sums.busiest},
            {"tree", node_json(trees.time, Amount::kSeconds)}}},
          {"memory",
           {{"pipeline_rank", trees.largest_place},
            {"tree", node_json(trees.memory, Amount::kBytes)}}}};
}

}  // namespace trireme
