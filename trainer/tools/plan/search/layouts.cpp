#include "trainer/tools/plan/search/layouts.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "parallel/context/context_cost.h"
#include "trainer/config/batch_size.h"

namespace trireme {
namespace {

std::vector<std::int64_t> divisors(std::int64_t whole, std::int64_t most) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d <= std::min(whole, most); ++d) {
    if (whole % d == 0) all.push_back(d);
  }
  return all;
}

// Degrees whose groups are inside a node, and that divide the heads.
std::vector<std::int64_t> tensor_degrees(const RunConfig& config, std::int64_t ranks,
                                         std::int64_t node) {
  std::vector<std::int64_t> all = divisors(ranks, node);
  std::erase_if(all, [&](std::int64_t degree) {
    const bool crosses_nodes = ranks > node && node % degree != 0;
    return crosses_nodes || config.model.num_attention_heads % degree != 0;
  });
  return all;
}

// Each method alone, and between the largest groups of a node that can exchange tokens for heads.
std::vector<ContextChoice> context_choices(const ModelConfig& model,
                                           const ParallelismConfig& layout, std::int64_t node) {
  if (layout.context == 1) return {{}};
  std::vector<ContextChoice> all{
      {ContextMethod::kAllGather, 1}, {ContextMethod::kRing, 1}, {ContextMethod::kUlysses, 1}};
  const ops::Heads heads = heads_of_rank(
      {model.num_attention_heads, model.num_key_value_heads, model.head_dim}, layout.tensor);
  std::int64_t most = 1;
  for (const std::int64_t ranks : ranks_of_heads(heads)) {
    const bool divides = layout.context % ranks == 0 && ranks < layout.context;
    if (divides && ranks * layout.tensor <= node) most = ranks;
  }
  if (most == 1) return all;
  all.push_back({ContextMethod::kAllGather, most});
  all.push_back({ContextMethod::kRing, most});
  return all;
}

}  // namespace

std::set<std::int64_t> each_family(const RunConfig& config, std::int64_t ranks, std::int64_t node,
                                   const std::function<void(const RunConfig&)>& visit) {
  std::set<std::int64_t> refused;
  RunConfig laid = config;
  ParallelismConfig& layout = laid.parallelism;
  layout.layers_per_stage.clear();
  layout.schedule = schedule_for_stages(1).name;
  layout.virtual_stages = layout.expert = layout.data_replicate = 1;
  // Every batch size of a ramp must be divisible.
  std::int64_t batch = 0;
  for (const std::int64_t size : batch_sizes(config.training)) batch = std::gcd(batch, size);
  const auto each_step = [&] {
    const std::int64_t sequences = batch / layout.data_shard;
    for (const std::int64_t size : divisors(sequences, sequences)) {
      laid.training.local_batch_size = size;
      const std::int64_t tokens = size * config.training.seq_len / layout.context;
      layout.sequence = layout.tensor > 1 && tokens % layout.tensor == 0;
      for (const Recompute mode : kRecomputeModes) {
        laid.activation_checkpoint.mode = mode;
        visit(laid);
      }
    }
  };
  const auto each_sharding = [&] {
    if (batch % layout.data_shard != 0) {
      refused.insert(layout.data_shard);
      return;
    }
    // ZeRO has no effect with one rank to shard over; with more, ZeRO-1 is never slower than
    // ZeRO-0.
    const std::int64_t shards = layout.data_shard * layout.context;
    const std::int64_t most = shards == 1 ? 1 : 3;
    for (layout.zero = 1; layout.zero <= most; ++layout.zero) {
      for (layout.expert = 1; layout.expert <= shards; ++layout.expert) {
        const bool divides_ranks = shards % layout.expert == 0;
        const bool divides_experts = config.model.num_experts % layout.expert == 0;
        if (divides_ranks && divides_experts) each_step();
        if (config.model.num_experts == 0) break;
      }
    }
  };
  const std::int64_t most_context =
      std::max<std::int64_t>(config.training.seq_len / kLeastShard, 1);
  for (const std::int64_t tensor : tensor_degrees(config, ranks, node)) {
    layout.tensor = tensor;
    for (const std::int64_t pipeline : divisors(ranks / tensor, config.model.num_hidden_layers)) {
      layout.pipeline = pipeline;
      const std::int64_t left = ranks / tensor / pipeline;
      for (const std::int64_t context : divisors(left, most_context)) {
        layout.context = context;
        layout.data_shard = left / context;
        for (const ContextChoice& choice : context_choices(config.model, layout, node)) {
          layout.context_method = choice.method;
          layout.context_ulysses = choice.ulysses;
          each_sharding();
        }
      }
    }
  }
  return refused;
}

std::vector<std::int64_t> replicate_degrees(const RunConfig& family, std::int64_t node) {
  const ParallelismConfig& layout = family.parallelism;
  const std::int64_t ranks = data_ranks(layout);
  std::set<std::int64_t> shards{ranks};
  for (std::int64_t power = 1; power < ranks; power *= 2) shards.insert(power);
  shards.insert(std::max<std::int64_t>(1, node / (layout.tensor * layout.context)));
  std::vector<std::int64_t> degrees;
  for (const std::int64_t shard : shards) {
    const std::int64_t sharing = shard * layout.context;
    const bool is_aligned = sharing % layout.expert == 0 || layout.expert % sharing == 0;
    const bool is_sharded = sharing > 1 || layout.zero == 1;
    if (ranks % shard == 0 && is_aligned && is_sharded) degrees.push_back(ranks / shard);
  }
  return degrees;
}

std::vector<ScheduleChoice> schedule_choices(const RunConfig& family) {
  const std::int64_t pipeline = family.parallelism.pipeline;
  // Without a pipeline all schedules are the same.
  if (pipeline == 1) return {{&schedule_for_stages(1), 1}};
  std::vector<ScheduleChoice> all;
  const std::int64_t layers = family.model.num_hidden_layers;
  const std::int64_t micro_batches = micro_batches_per_step(family);
  for (std::int64_t v = 1; v * pipeline <= layers; ++v) {
    for (const NamedSchedule& named : named_schedules()) {
      const bool defers = family.parallelism.zero >= 2 && named.defers_weight_gradients;
      const bool is_whole = micro_batches % named.micro_batch_multiple(pipeline) == 0;
      if (named.is_searched && named.supports_stages(v) && is_whole && !defers) {
        all.push_back({&named, v});
      }
    }
  }
  return all;
}

void set_member(RunConfig& family, std::int64_t replicate, const ScheduleChoice& choice) {
  ParallelismConfig& layout = family.parallelism;
  layout.data_shard = data_ranks(layout) / replicate;
  layout.data_replicate = replicate;
  layout.schedule = choice.schedule->name;
  layout.virtual_stages = choice.virtual_stages;
}

void each_layout(const RunConfig& config, std::int64_t ranks, std::int64_t node,
                 const std::function<void(const RunConfig&)>& visit) {
  each_family(config, ranks, node, [&](const RunConfig& family) {
    RunConfig member = family;
    for (const std::int64_t replicate : replicate_degrees(family, node)) {
      for (const ScheduleChoice& choice : schedule_choices(family)) {
        set_member(member, replicate, choice);
        visit(member);
      }
    }
  });
}

}  // namespace trireme
