#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "trainer/telemetry/cut_lines.h"
#include "trainer/telemetry/record_file.h"
#include "trainer/telemetry/step_metrics.h"

namespace trireme {

// The line of metrics.jsonl for one step, without the newline. Every number is the shortest decimal
// that reads back to the same float64. JSON has no NaN or infinity: such a value is null and is
// listed in an additional key, "not_finite":{"loss":"nan","grad_norm":"inf"} ("-inf" for negative
// infinity).
std::string metrics_line(const StepMetrics& metrics);

// RUN_DIR/metrics.jsonl: one line per step, in order, each step once.
class MetricsLog {
 public:
  // Continues after `last_step`, the step of the checkpoint resumed from (0 for a new run): lines
  // of later steps, incomplete lines and foreign lines are removed first. Throws EnvironmentError
  // if the file cannot be written.
  MetricsLog(const std::filesystem::path& path, std::int64_t last_step);

  // Does not throw for write errors such as a full disk: see RecordFile.
  void append(const StepMetrics& metrics);
  // Call it before committing a checkpoint of the step, so that no resume is ahead of the metrics.
  // See RecordFile.
  bool sync() { return file_.sync(); }

  const LinesCut& cut() const { return cut_; }
  const RecordFile& file() const { return file_; }

 private:
  LinesCut cut_;
  RecordFile file_;
  std::int64_t last_step_;
};

// Values of a step in metrics.jsonl, to the bit.
struct RecordedStep {
  double loss = 0;
  double grad_norm = 0;
  std::int64_t skips = 0;  // skipped steps up to this one
  std::int64_t rollbacks = 0;
};

// Searches from the end of the file backwards. Nothing if the file, the step or a finite value is
// missing. Throws EnvironmentError if the file cannot be read.
std::optional<RecordedStep> recorded_step(const std::filesystem::path& metrics, std::int64_t step);

}  // namespace trireme
