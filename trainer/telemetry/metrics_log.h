#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "trainer/telemetry/cut_lines.h"
#include "trainer/telemetry/record_file.h"
#include "trainer/telemetry/step_metrics.h"

namespace trireme {

// The line of metrics.jsonl for one step, without the newline. Every number is the
// shortest decimal that reads back to the same float64 (a float32 is one, too). JSON
// knows no NaN and no infinity: such a value is null and is named in one more key,
// "not_finite":{"loss":"nan","grad_norm":"inf"} ("-inf" for the negative one).
std::string metrics_line(const StepMetrics& metrics);

// RUN_DIR/metrics.jsonl: one line a step, in order, each step once.
class MetricsLog {
 public:
  // Continues after `last_step`, the step of the checkpoint resumed from (0: from the
  // start): lines of later steps, lines torn by a kill and foreign lines are cut off
  // before this returns. Throws EnvironmentError when the file cannot be written.
  MetricsLog(const std::filesystem::path& path, std::int64_t last_step);

  // Never throws for a full disk or the like: see RecordFile.
  void append(const StepMetrics& metrics);
  // To be called before a checkpoint of the step is committed: then no resume can be
  // ahead of the metrics. See RecordFile.
  bool sync() { return file_.sync(); }

  const LinesCut& cut() const { return cut_; }
  const RecordFile& file() const { return file_; }

 private:
  LinesCut cut_;
  RecordFile file_;
  std::int64_t last_step_;
};

}  // namespace trireme
