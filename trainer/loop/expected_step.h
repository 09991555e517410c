#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "trainer/engine/computation.h"
#include "trainer/loop/train_state.h"
#include "trainer/telemetry/metrics_log.h"

namespace trireme {

// The step after a checkpoint as recorded before the run was resumed there.
struct ExpectedStep {
  std::int64_t step = 0;
  std::string weights;  // hash of those it started from
  RecordedStep taken;
  Computation computation;  // that it was done with
};

// The expected first step of a resumed run, or why there is none.
struct Expectation {
  std::optional<ExpectedStep> step;
  std::string why_none;
};

// For a run that resumes at `state`. Reads metrics.jsonl, which must not have been cut yet, and
// RUN_DIR/self_check.json, where the last start recorded its computation and the expectation of a
// first step that it may not have reached.
Expectation expected_step(const std::filesystem::path& run, const TrainState& state);

// Writes RUN_DIR/self_check.json for the next start: the computation of the steps after
// `started_at`, or after an earlier step that the file already records with the same computation.
// Throws EnvironmentError.
void write_self_check(const std::filesystem::path& run, std::int64_t started_at,
                      const Computation& computation, const std::optional<ExpectedStep>& expected);

// An expectation as text, and back.
std::string text_of(const Expectation& expectation);
Expectation parse_expectation(const std::string& text);

}  // namespace trireme
