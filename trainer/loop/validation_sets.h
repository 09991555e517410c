#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/loop/data_feed.h"
#include "trainer/telemetry/step_metrics.h"

namespace trireme {

// The validation data of one name, blended by their weights.
struct ValidationSet {
  std::string name;   // empty: of those that have none
  double weight = 1;  // of all its sources; 1 where training documents are kept back
  data::SampleSource source;
};

// In the order in which the config first names them; none: the config has no validation data.
std::vector<ValidationSet> open_validation_sets(const RunConfig& config);

// What one of them has been measured to be, and all: the mean of the sets' losses by their
// weights, and its bits per byte by the mean of theirs, where all of them know theirs.
MeasuredSet measured(const ValidationSet& set, const Evaluation& evaluation);
MeasuredSet mean_of(const std::vector<ValidationSet>& sets,
                    std::span<const MeasuredSet> measurements);

}  // namespace trireme
