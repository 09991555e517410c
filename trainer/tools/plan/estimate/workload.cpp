#include "trainer/tools/plan/estimate/workload.h"

#include "trainer/engine/rank_groups.h"

namespace trireme {

std::int64_t Workload::tokens() const {
  return mesh.data_replicate * mesh.data_shard * spec.micro_batches *
         spec.training.local_batch_size * spec.training.seq_len;
}

NumberFormat Workload::numbers() const {
  const bool is_float8 = spec.precision == MatmulPrecision::kFloat8;
  return format_of(is_float8 ? 1 : size_of(spec.compute));
}

Workload workload_of(const RunConfig& config, double expert_imbalance) {
  return {engine_spec(config), mesh_shape(config.parallelism), expert_imbalance};
}

}  // namespace trireme
