#include "trainer/config/for_ranks.h"

#include "model/base/error.h"
#include "trainer/config/rules.h"

namespace trireme {

LoadedConfig for_ranks(const LoadedConfig& loaded, std::int64_t ranks) {
  LoadedConfig filled = loaded;
  const auto derive = [&](const char* key, std::int64_t& member, std::int64_t value) {
    member = value;
    filled.origins[key] = {Origin::Kind::kDerived, 0, 0};
  };
  ParallelismConfig& layout = filled.config.parallelism;
  const std::int64_t others = world_size(layout);
  const std::int64_t rest = ranks % others == 0 ? ranks / others : 0;
  if (rest > 0 && layout.data_shard == 0) {
    derive("parallelism.data_shard", layout.data_shard, rest);
    if (layout.data_replicate == 0) derive("parallelism.data_replicate", layout.data_replicate, 1);
  } else if (rest > 0 && layout.data_replicate == 0) {
    derive("parallelism.data_replicate", layout.data_replicate, rest);
  }
  TrainingConfig& training = filled.config.training;
  if (training.rampup_batch_size.empty() &&
      loaded.origin("training.global_batch_size").kind == Origin::Kind::kDerived) {
    training.global_batch_size = training.local_batch_size * data_ranks(layout);
  }
  Complaints complaints;
  check_rules(filled, complaints, Purpose::kPlanning);  // data was checked on reading
  if (!complaints.empty()) throw ConfigError(complaints.text(filled.source));
  return filled;
}

}  // namespace trireme
