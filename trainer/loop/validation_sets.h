#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/engine/data_feed.h"
#include "trainer/telemetry/step_metrics.h"

namespace trireme {

// The validation sources of one name, blended by their weights.
struct ValidationSet {
  std::string name;   // empty: sources without a name
  double weight = 1;  // of all its sources; 1 for documents split off the training data
  data::SampleSource source;
};

// In the order in which the config first names them; empty without validation data.
std::vector<ValidationSet> open_validation_sets(const RunConfig& config);

// The result of one set, and the mean over all by weight; its bits per byte need those of every
// set.
MeasuredSet measured(const ValidationSet& set, const Evaluation& evaluation);
MeasuredSet mean_of(const std::vector<ValidationSet>& sets,
                    std::span<const MeasuredSet> measurements);

}  // namespace trireme
