#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "trainer/loop/computation.h"
#include "trainer/loop/run_state.h"
#include "trainer/telemetry/recorded_step.h"

namespace trireme {

// The step after a checkpoint as the run took it before it was resumed there.
struct ExpectedStep {
  std::int64_t step = 0;
  std::string weights;  // the hash of those it began with
  RecordedStep taken;
  Computation computation;  // that took it
};

// What is known of the first step of a run that goes on: the step, or why there is none.
struct Expectation {
  std::optional<ExpectedStep> step;
  std::string why_none;
};

// For a run that goes on from `progress`: looks into metrics.jsonl, which must not have been cut
// yet, and into RUN_DIR/self_check.json, where the last start of the run wrote what it
// computes with, and what it expected of a first step that it may not have reached.
Expectation expected_step(const std::filesystem::path& run, const RunProgress& progress);

// Writes RUN_DIR/self_check.json for the next to come: from the step after `started_at` on the
// run computes so, or from an earlier one on that the file already tells of. Throws
// EnvironmentError.
void write_self_check(const std::filesystem::path& run, std::int64_t started_at,
                      const Computation& computation, const std::optional<ExpectedStep>& expected);

// As JSON, and back; throws nlohmann::json::exception.
nlohmann::json to_json(const ExpectedStep& expected);
ExpectedStep expected_from(const nlohmann::json& object);

}  // namespace trireme
