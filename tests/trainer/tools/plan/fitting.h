#pragma once
#include <functional>
#include <vector>

#include "tests/trainer/tools/plan/published_runs.h"

namespace trireme::published {

// A fitted number, what physics allows it, and what was known of it before: ln(value / expected) is
// `width` or less in two of three cases.
struct Parameter {
  double Fitted::*value;
  const char* name;
  double least, most, expected, width;
  const char* meaning;
};
const std::vector<Parameter>& parameters();

// The numbers with which the runs of all seen sources come out best: the least sum of
// |ln(predicted / measured)|, where a source weighs as much as the square root of its runs, and of
// departures from what was expected.
Fitted fit(const std::vector<Run>& runs);

// A source, predicted with what was fitted to all others.
struct LeftOut {
  Source source;
  Fitted fitted;  // of an unseen source: fitted()
  std::vector<const Run*> runs;
  std::vector<double> errors;  // predicted / measured - 1
};
std::vector<LeftOut> leave_one_out(const std::vector<Run>& runs);
std::vector<double> errors_of(const std::vector<LeftOut>& all,
                              const std::function<bool(const Source&)>& is_meant);
// Measured over predicted, of nine runs in ten of all sources but those that came later.
TimeBand band_of(const std::vector<LeftOut>& all);

}  // namespace trireme::published
