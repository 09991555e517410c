#include "parallel/data/compression/compression_options.h"
#include "trainer/config/option_table.h"

namespace trireme {

void add_parallelism(Options& to) {
  const auto axis = [&to](std::string name, Slot (*slot)(RunConfig&), std::string help,
                          std::string alias, double least = 1) {
    to.push_back({.key = "parallelism." + std::move(name),
                  .slot = slot,
                  .help = std::move(help),
                  .effect = Effect::kLayout,
                  .range = between(least, 1048576),
                  .unit = "ranks",
                  .aliases = {std::move(alias)}});
  };
  axis("tensor", TRIREME_MEMBER(parallelism.tensor), "ranks that share each matrix",
       "tensor_parallel_degree");
  to.push_back({.key = "parallelism.sequence",
                .slot = TRIREME_MEMBER(parallelism.sequence),
                .help = "between the shared matrices tensor ranks share the tokens out",
                .effect = Effect::kLayout});
  axis("pipeline", TRIREME_MEMBER(parallelism.pipeline), "ranks that share the layers",
       "pipeline_parallel_degree");
  to.push_back({.key = "parallelism.schedule",
                .slot = TRIREME_MEMBER(parallelism.schedule),
                .help = "order of the pipeline's work, or a CSV file of it",
                .effect = Effect::kPerformance,
                .allowed = {"1F1B", "GPipe", "Interleaved1F1B", "ZBH1"},
                .or_path = true,
                .aliases = {"pipeline_parallel_schedule"}});
  to.push_back({.key = "parallelism.virtual_stages",
                .slot = TRIREME_MEMBER(parallelism.virtual_stages),
                .help = "runs of layers on each pipeline rank (Interleaved1F1B)",
                .effect = Effect::kLayout,
                .range = between(1, 1024)});
  to.push_back({.key = "parallelism.layers_per_stage",
                .slot = TRIREME_MEMBER(parallelism.layers_per_stage),
                .help = "layers of each pipeline stage in order, as [6, 6, 5, 5]; without it the "
                        "stages are balanced by what they compute",
                .effect = Effect::kLayout});
  axis("context", TRIREME_MEMBER(parallelism.context), "ranks that share a sequence",
       "context_parallel_degree");
  axis("expert", TRIREME_MEMBER(parallelism.expert), "ranks that share the experts",
       "expert_parallel_degree");
  axis("data_replicate", TRIREME_MEMBER(parallelism.data_replicate),
       "ranks that share the batch and own the same state; 0: what the other axes leave",
       "data_parallel_replicate_degree", 0);
  axis("data_shard", TRIREME_MEMBER(parallelism.data_shard),
       "ranks that share the batch and divide the state (zero); 0: what the other axes leave",
       "data_parallel_shard_degree", 0);
  to.push_back({.key = "parallelism.zero",
                .slot = TRIREME_MEMBER(parallelism.zero),
                .help = "what data_shard ranks divide: 0 nothing, 1 the optimizer's state, 2 "
                        "gradients too, 3 weights too",
                .effect = Effect::kLayout,
                .range = between(0, 3)});
  to.push_back({.key = "parallelism.bucket_mb",
                .slot = TRIREME_MEMBER(parallelism.bucket_mb),
                .help = "gradients reduced at once while the backward goes on; with zero = 2 or 3 "
                        "it is a layer's",
                .effect = Effect::kPerformance,
                .range = between(0, 1e6),
                .unit = "MiB"});
  to.push_back({.key = "parallelism.gradient_compression",
                .slot = TRIREME_MEMBER(parallelism.gradient_compression),
                .help = "how data_replicate ranks send each other gradients; what topk, powersgd "
                        "and onebit leave out is added to the next step's",
                .effect = Effect::kNumerics,
                .allowed = {kCompressionNames.begin(), kCompressionNames.end()}});
  to.push_back({.key = "parallelism.compression_fraction",
                .slot = TRIREME_MEMBER(parallelism.compression_fraction),
                .help = "topk: share of the gradients that is sent, the largest",
                .effect = Effect::kNumerics,
                .range = between(1e-6, 1)});
  to.push_back({.key = "parallelism.compression_rank",
                .slot = TRIREME_MEMBER(parallelism.compression_rank),
                .help = "powersgd: rank of what is sent for a matrix",
                .effect = Effect::kNumerics,
                .range = between(1, 1024)});
  to.push_back({.key = "parallelism.compression_warmup_steps",
                .slot = TRIREME_MEMBER(parallelism.compression_warmup_steps),
                .help = "first steps of the run whose gradients are not compressed",
                .effect = Effect::kNumerics,
                .range = between(0, 1e12),
                .unit = "steps"});
}

void add_activation_checkpoint(Options& to) {
  to.push_back({.key = "activation_checkpoint.mode",
                .slot = TRIREME_MEMBER(activation_checkpoint.mode),
                .help = "what backward computes again instead of keeping it",
                .effect = Effect::kPerformance,
                .allowed = {"none", "selective", "full"}});
  to.push_back({.key = "activation_checkpoint.offload",
                .slot = TRIREME_MEMBER(activation_checkpoint.offload),
                .help = "what a layer keeps for its backward waits for it in pinned memory of the "
                        "host; a GPU holds three layers'",
                .effect = Effect::kPerformance});
}

}  // namespace trireme
