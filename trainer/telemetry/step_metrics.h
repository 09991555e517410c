#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

// Of one of the validation sets.
struct MeasuredSet {
  std::string name;                     // empty: it has none
  double loss = 0;                      // nats, mean over its valid tokens
  std::optional<double> bits_per_byte;  // where the text's bytes are known
  std::int64_t tokens = 0;
};

// What one optimizer step is known by. The names are the keys of metrics.jsonl.
struct StepMetrics {
  std::int64_t step = 0;    // 1 for the first
  std::int64_t tokens = 0;  // trained on since step 1, this step included
  double loss = 0;          // nats, mean over the valid tokens of the global batch
  double grad_norm = 0;     // global, before the clip
  double lr = 0;
  double step_seconds = 0;  // with the logging of the step before; no checkpoints, no validation
  double tokens_per_second = 0;  // of all ranks together
  double mfu = 0;                // fraction of the peak; 0: the peak is not known
  double hfu = 0;
  std::uint64_t memory_peak_bytes = 0;             // the arenas' high-water mark so far, this rank
  std::uint64_t process_peak_bytes = 0;            // VmHWM (process_memory.h)
  std::optional<double> validation_loss;           // where a validation followed the step
  std::optional<double> validation_bits_per_byte;  // where the text's bytes are known
  // Those with a name: "validation_loss/NAME" and "validation_bits_per_byte/NAME".
  std::vector<MeasuredSet> validation_sets = {};
  // Further numbers under their own keys, e.g. {"aux_loss", 0.01}; must not repeat the above.
  std::vector<std::pair<std::string, double>> more;
};

}  // namespace trireme
