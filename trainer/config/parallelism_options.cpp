#include <fmt/format.h>
#include <fmt/ranges.h>

#include "parallel/pipeline/registry.h"
#include "trainer/config/option_table.h"

namespace trireme {
namespace {

Option degree(std::string name, Slot (*slot)(RunConfig&), std::string help, std::string alias,
              double least = 1) {
  return {.key = "parallelism." + std::move(name),
          .slot = slot,
          .help = std::move(help),
          .effect = Effect::kLayout,
          .range = between(least, 1048576),
          .unit = "ranks",
          .aliases = {std::move(alias)}};
}

void add_model_parallelism(Options& to) {
  const std::vector<std::string> with_stages =
      names_of(named_schedules(), &NamedSchedule::has_virtual_stages);
  to.push_back(degree("tensor", TRIREME_MEMBER(parallelism.tensor), "tensor parallel degree",
                      "tensor_parallel_degree"));
  to.push_back({.key = "parallelism.sequence",
                .slot = TRIREME_MEMBER(parallelism.sequence),
                .help = "sequence parallelism: shard activations outside tensor-parallel regions "
                        "along the sequence",
                .effect = Effect::kLayout});
  to.push_back(degree("pipeline", TRIREME_MEMBER(parallelism.pipeline), "pipeline parallel degree",
                      "pipeline_parallel_degree"));
  to.push_back({.key = "parallelism.schedule",
                .slot = TRIREME_MEMBER(parallelism.schedule),
                .help = "pipeline schedule, or the path of a CSV file that defines one",
                .effect = Effect::kPerformance,
                .allowed = names_of(named_schedules()),
                .or_path = true,
                .aliases = {"pipeline_parallel_schedule"}});
  to.push_back({.key = "parallelism.virtual_stages",
                .slot = TRIREME_MEMBER(parallelism.virtual_stages),
                .help = fmt::format("stages per pipeline rank ({})", fmt::join(with_stages, ", ")),
                .effect = Effect::kLayout,
                .range = between(1, 1024)});
  to.push_back({.key = "parallelism.layers_per_stage",
                .slot = TRIREME_MEMBER(parallelism.layers_per_stage),
                .help = "layers of each pipeline stage in order, as [6, 6, 5, 5]; empty: balanced "
                        "by compute cost",
                .effect = Effect::kLayout});
  to.push_back(degree("context", TRIREME_MEMBER(parallelism.context),
                      "context parallel degree: ranks that shard every sequence, balanced by "
                      "query-key pairs",
                      "context_parallel_degree"));
  to.push_back({.key = "parallelism.context_method",
                .slot = TRIREME_MEMBER(parallelism.context_method),
                .help = "attention across context parallel ranks: all_gather (gathers keys and "
                        "values, a few heads at a time), ring (exchanges keys and values rank by "
                        "rank) or ulysses (all-to-all between tokens and heads)",
                .effect = Effect::kLayout,
                .allowed = {kContextMethodNames.begin(), kContextMethodNames.end()},
                .default_text = "ulysses if the degree divides a tensor rank's key-value heads, "
                                "otherwise what sends least: all_gather or ulysses, alone or "
                                "combined (context_ulysses); all_gather with job.reproducible"});
  to.push_back({.key = "parallelism.context_ulysses",
                .slot = TRIREME_MEMBER(parallelism.context_ulysses),
                .help = "adjacent context parallel ranks, such as those of a node, that exchange "
                        "tokens for heads (Ulysses); context_method (all_gather or ring) is then "
                        "used between groups of so many ranks",
                .effect = Effect::kLayout,
                .range = between(1, 65536),
                .default_text = "1, or chosen with the default context_method"});
  to.push_back(degree("expert", TRIREME_MEMBER(parallelism.expert),
                      "expert parallel degree: data parallel ranks that divide the experts of each "
                      "layer among themselves",
                      "expert_parallel_degree"));
  to.push_back({.key = "parallelism.expert_buffer_factor",
                .slot = TRIREME_MEMBER(parallelism.expert_buffer_factor),
                .help = "rows that an expert parallel rank plans memory for, as a multiple of its "
                        "equal share; more are computed in further rounds, none is dropped",
                .effect = Effect::kPerformance,
                .range = between(1, 1024)});
}

void add_data_parallelism(Options& to) {
  to.push_back(degree(
      "data_replicate", TRIREME_MEMBER(parallelism.data_replicate),
      "data parallel replicate degree (HSDP): number of groups of data_shard ranks that hold the "
      "same state; 0: what the other degrees leave",
      "data_parallel_replicate_degree", 0));
  to.push_back(degree(
      "data_shard", TRIREME_MEMBER(parallelism.data_shard),
      "data parallel shard degree: number of ranks that shard the state (see zero); 0: what the "
      "other degrees leave",
      "data_parallel_shard_degree", 0));
  to.push_back({.key = "parallelism.zero",
                .slot = TRIREME_MEMBER(parallelism.zero),
                .help = "ZeRO stage; 0: nothing is sharded, 1: optimizer state, 2: also gradients, "
                        "3: also weights",
                .effect = Effect::kLayout,
                .range = between(0, 3)});
  to.push_back({.key = "parallelism.bucket_mb",
                .slot = TRIREME_MEMBER(parallelism.bucket_mb),
                .help = "gradient bucket size; a full bucket is reduced during the backward pass; "
                        "zero = 2 or 3 uses one bucket per layer",
                .effect = Effect::kPerformance,
                .range = between(0, 1e6),
                .unit = "MiB"});
}

void add_compression(Options& to) {
  to.push_back({.key = "parallelism.gradient_compression",
                .slot = TRIREME_MEMBER(parallelism.compression.method),
                .help = "compression of the gradients exchanged between replicas; topk, powersgd "
                        "and onebit use error feedback",
                .effect = Effect::kNumerics,
                .allowed = {kCompressionNames.begin(), kCompressionNames.end()}});
  to.push_back({.key = "parallelism.compression_fraction",
                .slot = TRIREME_MEMBER(parallelism.compression.fraction),
                .help = "topk: fraction of the gradient elements to send, largest first",
                .effect = Effect::kNumerics,
                .range = between(1e-6, 1)});
  to.push_back({.key = "parallelism.compression_rank",
                .slot = TRIREME_MEMBER(parallelism.compression.rank),
                .help = "powersgd: rank of the low-rank approximation",
                .effect = Effect::kNumerics,
                .range = between(1, 1024)});
  to.push_back({.key = "parallelism.compression_warmup_steps",
                .slot = TRIREME_MEMBER(parallelism.compression.warmup_steps),
                .help = "steps at the beginning of the run without compression",
                .effect = Effect::kNumerics,
                .range = between(0, 1e12),
                .unit = "steps"});
}

}  // namespace

void add_parallelism(Options& to) {
  add_model_parallelism(to);
  add_data_parallelism(to);
  add_compression(to);
}

void add_activation_checkpoint(Options& to) {
  to.push_back({.key = "activation_checkpoint.mode",
                .slot = TRIREME_MEMBER(activation_checkpoint.mode),
                .help =
                    "activations that the backward pass recomputes instead of saving them; "
                    "norms: outputs of norms; selective: of norms and MLP activation functions; "
                    "full: of whole blocks, with MLPs in chunks of tokens",
                .effect = Effect::kPerformance,
                .allowed = {kRecomputeNames.begin(), kRecomputeNames.end()}});
  to.push_back(
      {.key = "activation_checkpoint.offload",
       .slot = TRIREME_MEMBER(activation_checkpoint.offload),
       .help = "offload saved activations to pinned host memory; three layers stay on the GPU",
       .effect = Effect::kPerformance});
}

}  // namespace trireme
