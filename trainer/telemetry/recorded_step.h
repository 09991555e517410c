#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

namespace trireme {

// What metrics.jsonl says of a step, to the bit.
struct RecordedStep {
  double loss = 0;
  double grad_norm = 0;
  std::int64_t skips = 0;  // of steps, up to this one
  std::int64_t rollbacks = 0;
};

// Looks from the end backwards, as far as the steps are later; nothing where the file, the
// step, or a finite number of it is missing. Throws EnvironmentError when it cannot be read.
std::optional<RecordedStep> recorded_step(const std::filesystem::path& metrics, std::int64_t step);

}  // namespace trireme
