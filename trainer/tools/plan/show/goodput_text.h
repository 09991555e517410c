#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "trainer/tools/plan/run_plan.h"

namespace trireme {

// Rows of the goodput of a plan that has one: what takes the time, intervals, restarts.
std::vector<std::pair<std::string, std::string>> goodput_rows(const RunPlan& plan);

// The shares, the intervals, and all inputs of the model, which scripts/goodput simulates.
nlohmann::ordered_json goodput_json(const RunPlan& plan);

}  // namespace trireme
