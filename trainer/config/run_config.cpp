#include "trainer/config/run_config.h"

#include <algorithm>

namespace trireme {

std::int64_t world_size(const ParallelismConfig& layout) {
  return layout.tensor * layout.pipeline * layout.context * data_ranks(layout);
}

std::int64_t data_ranks(const ParallelismConfig& layout) {
  return std::max<std::int64_t>(layout.data_replicate, 1) *
         std::max<std::int64_t>(layout.data_shard, 1);
}

std::int64_t tokens_per_step(const RunConfig& config) {
  return config.training.global_batch_size * config.training.seq_len;
}

std::int64_t microbatches(const RunConfig& config) {
  return config.training.global_batch_size / config.training.local_batch_size /
         data_ranks(config.parallelism);
}

std::int64_t total_steps(const RunConfig& config) {
  if (config.training.steps > 0) return config.training.steps;
  const std::int64_t step = tokens_per_step(config);
  return config.training.tokens / step + (config.training.tokens % step != 0 ? 1 : 0);
}

std::filesystem::path checkpoint_folder(const RunConfig& config) {
  return config.job.dump_folder / config.checkpoint.folder;
}

}  // namespace trireme
