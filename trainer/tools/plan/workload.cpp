#include "trainer/tools/plan/workload.h"

#include <algorithm>
#include <map>

namespace trireme {

std::int64_t Workload::ranks() const {
  return mesh.pipeline * mesh.data_replicate * mesh.data_shard * mesh.context * mesh.tensor;
}

std::int64_t Workload::tokens() const {
  return mesh.data_replicate * mesh.data_shard * micro_batches * micro_batch * seq_len;
}

Workload workload_of(const RunConfig& config) {
  const std::map<std::string, Recomputed> modes{{"none", Recomputed::kNothing},
                                                {"selective", Recomputed::kNormsAndActivations},
                                                {"full", Recomputed::kAll}};
  const std::map<std::string, NumberFormat> numbers{{"float32", NumberFormat::kFloat32},
                                                    {"bfloat16", NumberFormat::kHalf},
                                                    {"float16", NumberFormat::kHalf},
                                                    {"float8", NumberFormat::kFloat8}};
  const ParallelismConfig& layout = config.parallelism;
  const auto degree = [](std::int64_t n) { return std::max<std::int64_t>(n, 1); };
  return {.model = config.model,
          .numbers = numbers.at(config.training.dtype),
          .recomputed = modes.at(config.activation_checkpoint.mode),
          .seq_len = config.training.seq_len,
          .micro_batch = config.training.local_batch_size,
          .micro_batches = micro_batches_per_step(config),
          .mesh = {.pipeline = layout.pipeline,
                   .data_replicate = degree(layout.data_replicate),
                   .data_shard = degree(layout.data_shard),
                   .context = layout.context,
                   .tensor = layout.tensor,
                   .expert = layout.expert},
          .schedule = layout.schedule,
          .virtual_stages = static_cast<int>(layout.virtual_stages),
          .layers_per_stage = layout.layers_per_stage,
          .sequence = layout.sequence,
          .zero = static_cast<int>(layout.zero),
          .bucket_bytes = layout.bucket_mb * (1 << 20)};
}

}  // namespace trireme
