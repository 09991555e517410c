#include "trainer/config/run_config.h"

#include <algorithm>

#include "trainer/config/batch_size.h"
#include "trainer/config/sequence_length.h"

namespace trireme {

std::int64_t world_size(const ParallelismConfig& layout) {
  return layout.tensor * layout.pipeline * layout.context * data_ranks(layout);
}

std::int64_t data_ranks(const ParallelismConfig& layout) {
  return std::max<std::int64_t>(layout.data_replicate, 1) *
         std::max<std::int64_t>(layout.data_shard, 1);
}

std::int64_t ulysses_ranks(const ParallelismConfig& layout) {
  return layout.context_method == ContextMethod::kUlysses ? layout.context : layout.context_ulysses;
}

std::int64_t tokens_per_step(const RunConfig& config) {
  return config.training.global_batch_size * config.training.seq_len;
}

std::int64_t micro_batches_per_step(const RunConfig& config) {
  return config.training.global_batch_size / config.training.local_batch_size /
         data_ranks(config.parallelism);
}

std::int64_t total_steps(const RunConfig& config) {
  if (config.training.steps > 0) return config.training.steps;
  if (config.training.tokens == 0) return 0;
  return step_of_token(config, config.training.tokens - 1);
}

std::int64_t order_samples(const RunConfig& config) {
  if (config.data.order_samples > 0) return config.data.order_samples;
  return sequences_before_step(config.training, total_steps(config) + 1);
}

std::filesystem::path checkpoint_folder(const RunConfig& config) {
  return config.job.dump_folder / config.checkpoint.folder;
}

}  // namespace trireme
