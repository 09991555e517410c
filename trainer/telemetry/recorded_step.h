#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

namespace trireme {

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
