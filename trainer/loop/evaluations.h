#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/engine/data_feed.h"
#include "trainer/engine/engine.h"
#include "trainer/engine/evaluation/multiple_choice.h"
#include "trainer/loop/generation.h"
#include "trainer/loop/run_log.h"
#include "trainer/telemetry/step_metrics.h"

namespace trireme {

// The validation sources of one name, blended by their weights.
struct ValidationSet {
  std::string name;   // empty: sources without a name
  double weight = 1;  // of all its sources; 1 for documents split off the training data
  data::SampleSource source;
};

// In the order in which the config first names them; empty without validation data. `stride`:
// SequenceSpec's.
std::vector<ValidationSet> open_validation_sets(const RunConfig& config, std::int64_t stride = 0);

// The result of one set, and the mean over all by weight; its bits per byte need those of every
// set.
MeasuredSet measured(const ValidationSet& set, const Evaluation& evaluation);
MeasuredSet mean_of(const std::vector<ValidationSet>& sets,
                    std::span<const MeasuredSet> measurements);

// Evaluates a run at the configured steps: validation loss, multiple-choice accuracy and text
// samples.
class Evaluations {
 public:
  // Opens the files. Throws DataError for bad ones, or where a required tokenizer is unknown.
  Evaluations(const RunConfig& config, std::int64_t total_steps);

  struct Target {
    Engine& engine;
    const RankGroups& groups;
    RunLog& log;
  };
  // Collective. Runs those due after the step, adds to its metrics and logs.
  void after_step(const Target& target, StepMetrics& metrics) const;

 private:
  bool is_due(std::int64_t step, std::int64_t freq) const {
    return freq > 0 && (step % freq == 0 || step == total_steps_);
  }
  void open_tokenizer();
  void validate(const Target& target, StepMetrics& metrics) const;
  void answer_questions(const Target& target, const MultipleChoice& test,
                        StepMetrics& metrics) const;
  void sample(const Target& target, std::int64_t step) const;

  const RunConfig& config_;
  const std::int64_t total_steps_;
  std::vector<ValidationSet> sets_;
  std::unique_ptr<data::Tokenizer> tokenizer_;  // if required
  std::vector<MultipleChoice> tests_;
  std::optional<Generation> sample_;
};

}  // namespace trireme
