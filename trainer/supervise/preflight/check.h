#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace trireme::preflight {

// What a check has measured on a rank: an object of numbers and texts.
using Figures = nlohmann::ordered_json;

// Ranks that a job cannot be trusted to, and the reason.
struct Fault {
  std::vector<int> ranks;
  std::string why;
};

// What the ranks' figures mean, in a line, and whom they accuse.
struct Judgement {
  std::string text;
  std::vector<Fault> faults;
};

// One thing that is looked at before a job. `measure` runs on all ranks at the same time, and
// may make calls to groups as long as it makes all of them on every rank; it throws an Error
// with what is wrong on its rank. Where nobody threw, `judge` is asked on the leading rank.
struct Check {
  std::string name;
  std::function<Figures()> measure;
  std::function<Judgement(const std::vector<Figures>& by_rank)> judge;
};

}  // namespace trireme::preflight
