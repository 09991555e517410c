#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

// Result on one validation set.
struct MeasuredSet {
  std::string name;                     // may be empty
  double loss = 0;                      // nats, mean over its valid tokens
  std::optional<double> bits_per_byte;  // if the size of the text in bytes is known
  std::int64_t tokens = 0;
};

// Loads of the experts, an entry for each layer that has some.
struct ExpertLoad {
  std::vector<std::int64_t> layers = {};  // counted from 0
  std::vector<double> max_over_mean = {};
  // [layers][experts], how often each expert is chosen; empty if not written for this step
  std::vector<std::vector<std::int64_t>> counts = {};
};

// Metrics of one optimizer step. The names are the keys of metrics.jsonl.
struct StepMetrics {
  std::int64_t step = 0;    // counted from 1
  std::int64_t tokens = 0;  // tokens trained on up to and including this step
  // nats, mean over the valid tokens of the global batch; with experts, plus the load balancing
  // loss
  double loss = 0;
  double grad_norm = 0;  // global, before clipping
  double lr = 0;
  // includes logging of the previous step; excludes checkpoints and validation
  double step_seconds = 0;
  double tokens_per_second = 0;  // sum over all ranks
  double mfu = 0;                // fraction of the peak FLOP/s; 0: peak unknown
  double hfu = 0;
  std::uint64_t memory_peak_bytes = 0;             // high-water mark of the arenas of this rank
  std::uint64_t process_peak_bytes = 0;            // VmHWM (process_memory.h)
  std::optional<double> validation_loss;           // if a validation followed the step
  std::optional<double> validation_bits_per_byte;  // if the size of the text in bytes is known
  // Named validation sets: "validation_loss/NAME" and "validation_bits_per_byte/NAME".
  std::vector<MeasuredSet> validation_sets = {};
  std::optional<ExpertLoad> expert_load = {};  // of a model with experts
  // Additional metrics, such as {"aux_loss", 0.01}; keys must be unique.
  std::vector<std::pair<std::string, double>> more;
};

}  // namespace trireme
