#include "trainer/tools/verify/finding.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme::verify {

std::vector<std::string> not_proven(const RunConfig& config,
                                    const std::vector<StepFinding>& steps) {
  std::vector<std::string> all;
  double largest = 0;
  std::int64_t rounds = 1;
  for (const StepFinding& step : steps) {
    largest = std::max(largest, step.grad_norm.expected);
    rounds = std::max(rounds, step.expert_rounds);
  }
  const double limit = config.training.max_norm;
  if (limit > 0 && largest <= limit) {
    all.push_back(
        fmt::format("gradient clipping: grad_norm never exceeded training.max_norm = {:.6g} (the "
                    "largest was {:.3g}; lower max_norm to exercise it)",
                    limit, largest));
  }
  if (config.optimizer.weight_decay == 0) {
    all.emplace_back("weight decay: optimizer.weight_decay is 0");
  }
  if (micro_batches_per_step(config) == 1) {
    all.emplace_back(
        "gradient accumulation: each data-parallel rank has one micro-batch per step (increase "
        "training.global_batch_size to exercise it)");
  }
  if (config.parallelism.expert > 1 && rounds == 1) {
    all.push_back(fmt::format(
        "further rounds of experts: the rows of each rank's experts fit into "
        "parallelism.expert_buffer_factor = {:.6g} times its share (lower it to exercise them)",
        config.parallelism.expert_buffer_factor));
  }
  if (config.training.dtype == "float16") {
    all.emplace_back("skipped steps: verify keeps the float16 loss scale constant");
  }
  return all;
}

}  // namespace trireme::verify
