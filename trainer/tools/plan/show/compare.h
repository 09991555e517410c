#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/tools/plan/run_plan.h"

namespace trireme {

// A plan and the name of its config.
struct NamedPlan {
  std::string name;
  RunPlan plan;
};

// A figure of two plans.
struct ComparedRow {
  enum class Unit : std::uint8_t { kSeconds, kDays, kBytes, kCount, kPercent, kMoney };
  std::string group, name;  // "memory", "weights"
  Unit unit = Unit::kCount;
  double a = 0, b = 0;

  double difference() const { return b - a; }
  double ratio() const { return b / a; }  // infinite or NaN if a is 0
};

// Step and its parts, speed, memory classes of the largest rank, traffic by axis, and the run; the
// cost if there is a price.
std::vector<ComparedRow> compared_rows(const RunPlan& a, const RunPlan& b,
                                       const PlanOptions& options);

// The rows side by side, those that are zero in both left out, and the config keys that differ.
std::string comparison_text(const NamedPlan& a, const NamedPlan& b, const PlanOptions& options);

// All rows, the keys, and both plans.
nlohmann::ordered_json comparison_json(const NamedPlan& a, const NamedPlan& b,
                                       const PlanOptions& options);

}  // namespace trireme
