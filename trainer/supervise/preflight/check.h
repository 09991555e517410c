#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace trireme::preflight {

// Measurements of a check on one rank: a JSON object of numbers and strings.
using Figures = nlohmann::ordered_json;

// Ranks that failed a check, and the reason.
struct Fault {
  std::vector<int> ranks;
  std::string why;
};

// One-line summary of all ranks' measurements, and the faults found.
struct Judgment {
  std::string text;
  std::vector<Fault> faults;
};

// A preflight check. `measure` runs on all ranks at the same time and may call collectives, the
// same ones on every rank; it throws an Error that describes a fault of its rank. If no rank threw,
// rank 0 calls `judge`.
struct Check {
  std::string name;
  std::function<Figures()> measure;
  std::function<Judgment(const std::vector<Figures>& by_rank)> judge;
};

}  // namespace trireme::preflight
