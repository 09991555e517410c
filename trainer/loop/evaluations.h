#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/engine/engine.h"
#include "trainer/engine/evaluation/multiple_choice.h"
#include "trainer/loop/run_log.h"
#include "trainer/loop/text_sample.h"
#include "trainer/loop/validation_sets.h"

namespace trireme {

// What a run is looked at by, besides its training: the loss of held-out text, questions answered,
// and samples of text, when they are due. All ranks walk the same way.
class Evaluations {
 public:
  // Opens the files. Throws DataError for bad ones, or where no tokenizer is known that is needed.
  Evaluations(const RunConfig& config, std::int64_t total_steps);

  struct Where {
    Engine& engine;
    const RankGroups& groups;
    RunLog& log;
  };
  // Collective. Those that are due after the step add to its metrics, and tell.
  void after_step(const Where& where, StepMetrics& metrics) const;

 private:
  bool is_due(std::int64_t step, std::int64_t freq) const {
    return freq > 0 && (step % freq == 0 || step == total_steps_);
  }
  void open_tokenizer();
  void validate(const Where& where, StepMetrics& metrics) const;
  void ask(const Where& where, const MultipleChoice& test, StepMetrics& metrics) const;
  void sample(const Where& where, std::int64_t step) const;

  const RunConfig& config_;
  const std::int64_t total_steps_;
  std::vector<ValidationSet> sets_;
  std::unique_ptr<data::Tokenizer> tokenizer_;  // where it is needed
  std::vector<MultipleChoice> tests_;
  std::optional<TextSample> sample_;
};

}  // namespace trireme
