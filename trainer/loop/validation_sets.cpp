#include "trainer/loop/validation_sets.h"

#include <algorithm>
#include <numbers>

namespace trireme {

std::vector<ValidationSet> open_validation_sets(const RunConfig& config) {
  std::vector<std::string> names;
  for (const DataSource& source : config.data.validation) {
    if (std::find(names.begin(), names.end(), source.name) == names.end()) {
      names.push_back(source.name);
    }
  }
  std::vector<ValidationSet> sets;
  if (names.empty()) {
    if (auto kept = open_validation_data(config)) sets.push_back({"", 1, std::move(*kept)});
    return sets;
  }
  for (const std::string& name : names) {
    RunConfig of_set = config;
    std::erase_if(of_set.data.validation,
                  [&](const DataSource& source) { return source.name != name; });
    double weight = 0;
    for (const DataSource& source : of_set.data.validation) weight += source.weight;
    sets.push_back({name, weight, open_validation_data(of_set).value()});
  }
  return sets;
}

MeasuredSet measured(const ValidationSet& set, const Evaluation& evaluation) {
  return {set.name, evaluation.loss, bits_per_byte(evaluation.loss, set.source),
          evaluation.valid_tokens};
}

MeasuredSet mean_of(const std::vector<ValidationSet>& sets,
                    std::span<const MeasuredSet> measurements) {
  MeasuredSet mean;
  if (sets.size() == 1) {
    mean = measurements.front();
    mean.name.clear();
    return mean;
  }
  double weights = 0, bytes = 0;
  bool knows_bytes = true;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const double weight = sets[i].weight, per_token = sets[i].source.bytes_per_token();
    weights += weight;
    mean.loss += weight * measurements[i].loss;
    mean.tokens += measurements[i].tokens;
    bytes += weight * per_token;
    knows_bytes = knows_bytes && per_token > 0;
  }
  if (knows_bytes) mean.bits_per_byte = mean.loss / std::numbers::ln2 / bytes;
  mean.loss /= weights;
  return mean;
}

}  // namespace trireme
