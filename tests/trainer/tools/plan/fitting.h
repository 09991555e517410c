#pragma once
#include <string>
#include <vector>

#include "tests/trainer/tools/plan/published_runs.h"

namespace trireme::published {

// A fitted number, with what physics allows it, and what was known of it before.
struct Parameter {
  double Fitted::*value;
  const char* name;
  double least, most;
  double expected;
  double width;  // of ln(value / expected): how well it was known
  const char* meaning;
};
const std::vector<Parameter>& parameters();

// The numbers with which these runs come out best: the sum of |ln(predicted / measured)|, where
// each source weighs as much as the square root of its runs, and of departures from what was
// expected.
Fitted fit(const std::vector<const Run*>& runs, Fitted from);

// ln(predicted / measured) of all runs of a source, fitted to the runs of all others but the unseen.
struct LeftOut {
  std::string source;
  Fitted fitted;
  std::vector<const Run*> runs;
  std::vector<double> errors;  // predicted / measured - 1
};
std::vector<LeftOut> leave_one_out(const std::vector<Run>& runs, const Fitted& from);

// What fit has found, for people to copy.
std::string text_of(const Fitted& fitted);

}  // namespace trireme::published
