#include "trainer/config/run_config.h"

namespace trireme {

std::int64_t world_size(const ParallelismConfig& layout) {
  return layout.tensor * layout.pipeline * layout.context * layout.data_replicate *
         layout.data_shard;
}

std::int64_t tokens_per_step(const RunConfig& config) {
  return config.training.global_batch_size * config.training.seq_len;
}

std::int64_t microbatches(const RunConfig& config) {
  return config.training.global_batch_size / config.training.local_batch_size;
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
