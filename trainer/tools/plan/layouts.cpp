#include "trainer/tools/plan/layouts.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "parallel/context/context_cost.h"
#include "parallel/pipeline/registry.h"
#include "trainer/config/batch_size.h"

namespace trireme {
namespace {

constexpr std::int64_t kMostMicroBatch = 16, kMostVirtualStages = 12;

std::vector<std::int64_t> divisors(std::int64_t whole, std::int64_t most) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d <= std::min(whole, most); ++d) {
    if (whole % d == 0) all.push_back(d);
  }
  return all;
}

struct ScheduleChoice {
  std::string schedule;
  std::int64_t virtual_stages;
};

// Virtual stages have an equal number of layers. Without a pipeline all schedules are the same.
std::vector<ScheduleChoice> schedules(const RunConfig& config) {
  const std::int64_t pipeline = config.parallelism.pipeline;
  if (pipeline == 1) return {{schedule_for_stages(1).name, 1}};
  std::vector<ScheduleChoice> all;
  const std::int64_t layers = config.model.num_hidden_layers;
  for (std::int64_t v = 1; v <= kMostVirtualStages && v * pipeline <= layers; ++v) {
    if (v > 1 && layers % (v * pipeline) != 0) continue;
    for (const NamedSchedule& named : named_schedules()) {
      if (named.is_searched && named.supports_stages(v)) all.push_back({named.name, v});
    }
  }
  return all;
}

// Each method alone, and between the largest groups of a node that can exchange tokens for heads.
std::vector<ContextChoice> context_choices(const ModelConfig& model,
                                           const ParallelismConfig& layout, std::int64_t node) {
  if (layout.context == 1) return {{}};
  std::vector<ContextChoice> all{
      {ContextMethod::kAllGather, 1}, {ContextMethod::kRing, 1}, {ContextMethod::kUlysses, 1}};
  const ops::Heads heads{model.num_attention_heads / layout.tensor,
                         std::max<std::int64_t>(model.num_key_value_heads / layout.tensor, 1), 1};
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

void each_layout(const RunConfig& config, std::int64_t ranks, std::int64_t node,
                 const std::function<void(const RunConfig&)>& visit) {
  RunConfig laid = config;
  ParallelismConfig& layout = laid.parallelism;
  layout.layers_per_stage.clear();
  layout.expert = layout.data_replicate = 1;
  // Every batch size of a ramp must be divisible.
  std::int64_t batch = 0;
  for (const std::int64_t size : batch_sizes(config.training)) batch = std::gcd(batch, size);
  const auto each_step = [&] {
    if (batch % layout.data_shard != 0) return;
    for (const std::int64_t size : divisors(batch / layout.data_shard, kMostMicroBatch)) {
      laid.training.local_batch_size = size;
      const std::int64_t tokens = size * config.training.seq_len / layout.context;
      layout.sequence = layout.tensor > 1 && tokens % layout.tensor == 0;
      for (const Recompute mode : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
        laid.activation_checkpoint.mode = mode;
        visit(laid);
      }
    }
  };
  const auto each_schedule = [&] {
    for (const ScheduleChoice& choice : schedules(laid)) {
      layout.schedule = choice.schedule;
      layout.virtual_stages = choice.virtual_stages;
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
    }
  };
  const std::int64_t most_context =
      std::max<std::int64_t>(config.training.seq_len / kLeastShard, 1);
  for (const std::int64_t tensor : divisors(ranks, node)) {
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
          each_schedule();
        }
      }
    }
  }
}

}  // namespace trireme
