#include <algorithm>
#include <cstdint>

#include "model/base/error.h"
#include "model/ops/float8.h"
#include "parallel/context/context_cost.h"
#include "parallel/context/row_shards.h"
#include "parallel/optimizer/registry.h"
#include "parallel/pipeline/registry.h"
#include "trainer/config/batch_size.h"
#include "trainer/config/option.h"
#include "trainer/config/rules.h"

namespace trireme {
namespace {

class LayoutRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;

  void layout() {
    tensor();
    context();
    experts();
    pipeline();
    data_parallel();
    compression();
    offload();
    float8();
  }

 private:
  // Matrices are sharded over tensor ranks in equal numbers of heads or columns.
  void tensor() {
    const ParallelismConfig& p = c_.parallelism;
    const ModelConfig& m = c_.model;
    const auto divides = [&](std::int64_t whole, const char* key) {
      check(whole % p.tensor == 0, {"parallelism.tensor", key},
            say("does not divide ", key, " = ", whole, "; ", near_divisor(whole, p.tensor)));
    };
    if (m.num_attention_heads > 0) divides(m.num_attention_heads, "model.num_attention_heads");
    if (m.intermediate_size > 0) divides(m.intermediate_size, "model.intermediate_size");
    if (m.num_experts > 0) divides(m.moe_intermediate_size, "model.moe_intermediate_size");
    if (m.num_key_value_heads > 0 && m.num_attention_heads % p.tensor == 0) {
      const std::int64_t heads = m.num_key_value_heads;
      std::vector<std::int64_t> possible = divisors(heads);
      for (std::int64_t more = 2 * heads; more <= m.num_attention_heads; more += heads) {
        if (m.num_attention_heads % more == 0) possible.push_back(more);
      }
      check(heads % p.tensor == 0 || p.tensor % heads == 0,
            {"parallelism.tensor", "model.num_key_value_heads"},
            say("neither divides model.num_key_value_heads = ", heads, " nor is a multiple of it; ",
                near(possible, p.tensor)));
    }
    check(!p.sequence || p.tensor > 1, {"parallelism.sequence", "parallelism.tensor"},
          "has no effect with parallelism.tensor = 1; remove it, or increase parallelism.tensor");
    const std::int64_t tokens =
        c_.training.local_batch_size * c_.training.seq_len / std::max<std::int64_t>(p.context, 1);
    check(!p.sequence || tokens % p.tensor == 0,
          {"parallelism.tensor", "parallelism.sequence", "training.seq_len"},
          say("does not divide the ", tokens, " tokens of a micro-batch, as parallelism.sequence ",
              "needs; ", near_divisor(tokens, p.tensor)));
  }

  // Ranks shard every sequence.
  void context() {
    using Method = ContextMethod;
    const ParallelismConfig& p = c_.parallelism;
    const std::int64_t seq_len = c_.training.seq_len;
    const std::string key = "parallelism.context", how = "parallelism.context_method";
    if (p.context <= 1) return;
    const std::int64_t multiple = row_multiple(static_cast<int>(p.context));
    check(seq_len % multiple == 0, {key, "training.seq_len"},
          say("needs sequences of a multiple of ", multiple, " tokens, not ", seq_len, "; ",
              near({seq_len / multiple * multiple, (seq_len / multiple + 1) * multiple}, seq_len)));
    check(p.context_method != Method::kRing || c_.training.dropout.attention == 0,
          {how, "training.attention_dropout"},
          "ring cannot drop attention's probabilities; use all_gather or ulysses");
    if (c_.job.reproducible) {
      check(p.expert == 1, {key, "parallelism.expert", "job.reproducible"},
            "cannot be combined with expert parallelism and job.reproducible");
      check(p.context_method == Method::kAllGather, {how, "job.reproducible"},
            "must be all_gather with job.reproducible, for the bits of one rank");
      check((p.context & (p.context - 1)) == 0, {key, "job.reproducible"},
            say("must be a power of two with job.reproducible, not ", p.context));
    }
    exchange_of_heads();
  }

  void exchange_of_heads() {
    const ParallelismConfig& p = c_.parallelism;
    const std::string key = "parallelism.context", how = "parallelism.context_method";
    const std::string level = "parallelism.context_ulysses";
    const bool is_all = p.context_method == ContextMethod::kUlysses;
    check(!is_all || p.context_ulysses == 1 || p.context_ulysses == p.context, {level, how},
          say("ulysses exchanges heads among all ", p.context, " context ranks; remove ", level,
              ", or use all_gather or ring between groups of ", p.context_ulysses));
    check(p.context % p.context_ulysses == 0, {level, key},
          say("does not divide ", p.context, " context ranks; ",
              near_divisor(p.context, p.context_ulysses)));
    check(!c_.job.reproducible || p.context_ulysses == 1, {level, "job.reproducible"},
          "must be 1 with job.reproducible, for the bits of one rank");
    const std::int64_t ranks = ulysses_ranks(p);
    const ops::Heads heads = heads_of_rank(
        {c_.model.num_attention_heads, c_.model.num_key_value_heads, c_.model.head_dim}, p.tensor);
    if (ranks == 1 || heads.heads <= 0) return;
    const std::vector<std::int64_t> possible = ranks_of_heads(heads);
    check(std::find(possible.begin(), possible.end(), ranks) != possible.end(),
          {is_all ? how : level, key, "model.num_attention_heads", "model.num_key_value_heads"},
          say(is_all ? "ulysses cannot divide " : "cannot divide ", heads.heads, " query and ",
              heads.kv_heads, " key-value heads of a tensor rank among ", ranks, " ranks; ",
              near(possible, ranks), ", or use all_gather", is_all ? "" : " alone"));
  }

  // Data and context ranks divide the experts among themselves.
  void experts() {
    const ParallelismConfig& p = c_.parallelism;
    const ModelConfig& m = c_.model;
    const std::string key = "parallelism.expert";
    if (p.expert <= 1) return;
    check(m.num_experts > 0, {key, "model.model_type"},
          "needs a model with experts; remove it, or choose another model");
    if (m.num_experts <= 0) return;
    check(m.num_experts % p.expert == 0, {key, "model.num_experts"},
          say("does not divide model.num_experts = ", m.num_experts, "; ",
              near_divisor(m.num_experts, p.expert)));
    if (p.data_shard > 0 && p.data_replicate > 0) {
      std::vector<std::int64_t> possible;
      const std::int64_t ranks = data_ranks(p) * p.context, shards = p.data_shard * p.context;
      for (const std::int64_t degree : divisors(ranks)) {
        const bool is_aligned = shards % degree == 0 || degree % shards == 0;
        if (is_aligned && m.num_experts % degree == 0) possible.push_back(degree);
      }
      check(std::find(possible.begin(), possible.end(), p.expert) != possible.end(),
            {key, "parallelism.data_shard", "parallelism.data_replicate"},
            say("must divide the ", ranks, p.context > 1 ? " data and context" : " data",
                " ranks, and divide or be a multiple of data_shard",
                p.context > 1 ? " x context" : "", " = ", shards, "; ", near(possible, p.expert)));
    }
    check(!find_optimizer(c_.optimizer.name).spans_ranks, {key, "optimizer.name"},
          say("is not implemented for ", c_.optimizer.name, ", which needs all shards of a ",
              "parameter; use AdamW, Lion or SGD"));
    check(p.compression.method == CompressionOptions::Method::kNone,
          {key, "parallelism.gradient_compression"}, "cannot be combined with compression");
    check(!c_.job.reproducible || (p.expert & (p.expert - 1)) == 0, {key, "job.reproducible"},
          say("must be a power of two with job.reproducible, not ", p.expert));
  }

  void pipeline() {
    const ParallelismConfig& p = c_.parallelism;
    const std::int64_t layers = c_.model.num_hidden_layers;
    const std::int64_t stages = p.pipeline * p.virtual_stages;
    if (layers > 0) {
      check(stages <= layers,
            {"parallelism.pipeline", "parallelism.virtual_stages", "model.num_hidden_layers"},
            say(stages, " stages for ", layers, " layers; at most ", layers / p.virtual_stages,
                p.virtual_stages > 1 ? trireme::say(" with virtual_stages = ", p.virtual_stages)
                                     : ""));
    }
    // The engine judges a file's schedule by its actions.
    if (const NamedSchedule* schedule = find_schedule(p.schedule)) shape_of(*schedule);
  }

  void shape_of(const NamedSchedule& schedule) {
    const ParallelismConfig& p = c_.parallelism;
    const std::string instead = schedule_for_stages(schedule.has_virtual_stages ? 1 : 2).name;
    check(
        schedule.supports_stages(p.virtual_stages) || (p.pipeline == 1 && p.virtual_stages == 1),
        {"parallelism.virtual_stages", "parallelism.schedule"},
        schedule.has_virtual_stages
            ? trireme::say("schedule ", schedule.name, " needs at least 2; use ", instead, " for 1")
            : trireme::say("schedule ", schedule.name, " has one stage per rank; use ", instead,
                           " for more"));
    const std::int64_t multiple = schedule.micro_batch_multiple(p.pipeline);
    const std::string needs =
        trireme::say("schedule ", schedule.name, " needs micro-batches in multiples ",
                     "of parallelism.pipeline = ", p.pipeline, ", but a step ");
    const std::int64_t count = micro_batches_per_step(c_);
    check(count % multiple == 0, {"training.global_batch_size", "parallelism.pipeline"},
          say(needs, "has ", count, "; global_batch_size ",
              near({count / multiple * multiple * c_.training.local_batch_size,
                    (count / multiple + 1) * multiple * c_.training.local_batch_size},
                   c_.training.global_batch_size)));
    for (const BatchSize& size : c_.training.rampup_batch_size) {
      const std::int64_t each = c_.training.local_batch_size * data_ranks(p);
      check(size.sequences % each != 0 || size.sequences / each % multiple == 0,
            {kRampupKey, "parallelism.pipeline"},
            say(needs, "of ", size.sequences, " sequences has ", size.sequences / each));
    }
  }

  void data_parallel() {
    const ParallelismConfig& p = c_.parallelism;
    const std::int64_t ranks = data_ranks(p), each = c_.training.local_batch_size * ranks;
    const std::int64_t batch = c_.training.global_batch_size;
    const Keys sizes{"training.global_batch_size", "training.local_batch_size",
                     "parallelism.data_shard", "parallelism.data_replicate"};
    const bool divides = batch % each == 0;
    check(
        divides || batch % c_.training.local_batch_size != 0, sizes,
        say("must be a multiple of local_batch_size = ", c_.training.local_batch_size, " times ",
            ranks, " data ranks; ", near({batch / each * each, (batch / each + 1) * each}, batch)));
    for (const BatchSize& size : c_.training.rampup_batch_size) {
      const std::int64_t below = size.sequences / each * each;
      check(size.sequences % each == 0 || size.sequences % c_.training.local_batch_size != 0,
            {kRampupKey, "training.local_batch_size", "parallelism.data_shard",
             "parallelism.data_replicate"},
            say(size.sequences, " sequences are not a multiple of local_batch_size = ",
                c_.training.local_batch_size, " times ", ranks, " data ranks; ",
                near({below, below + each}, size.sequences)));
    }
    const NamedSchedule* schedule = find_schedule(p.schedule);
    const bool defers = schedule != nullptr && schedule->defers_weight_gradients;
    check(p.zero < 2 || !defers, {"parallelism.zero", "parallelism.schedule"},
          say("zero = 2 and 3 reduce a layer's gradients during its backward, but ", p.schedule,
              " defers weight gradients; use zero = 1 or another schedule"));
    check(!c_.job.reproducible || !defers, {"job.reproducible", "parallelism.schedule"},
          say("reproducible sums need the gradients of a micro-batch together, but ", p.schedule,
              " defers weight gradients; use another schedule"));
    if (!c_.job.reproducible || !divides) return;
    const Keys keys{"job.reproducible",           "parallelism.zero",
                    "parallelism.data_shard",     "parallelism.data_replicate",
                    "training.global_batch_size", kRampupKey};
    const bool by_micro_batch = p.zero >= 2 && p.data_shard > 1;
    const auto is_power_of_two = [](std::int64_t n) { return (n & (n - 1)) == 0; };
    if (by_micro_batch) {
      check(is_power_of_two(ranks), keys,
            say("with zero = ", p.zero,
                " the number of data-parallel ranks must be a power of two, not ", ranks),
            false);
      return;
    }
    for (const std::int64_t size : batch_sizes(c_.training)) {
      const std::int64_t count = size / each;
      check(ranks == 1 || is_power_of_two(count), keys,
            say("the number of micro-batches per data-parallel rank must be a power of two, not ",
                count,
                size == batch ? "; change global_batch_size or local_batch_size"
                              : "; change the sizes in rampup_batch_size"),
            false);
    }
  }

  void compression() {
    const ParallelismConfig& p = c_.parallelism;
    using Method = CompressionOptions::Method;
    const Method method = p.compression.method;
    if (method == Method::kNone) return;
    const std::string key = "parallelism.gradient_compression";
    check(p.data_replicate != 1 || (p.zero == 0 && p.data_shard != 1),
          {key, "parallelism.data_replicate", "parallelism.zero"},
          "needs data_replicate > 1: only gradients between replicas are compressed");
    check(!c_.job.reproducible, {key, "job.reproducible"},
          "conflicts with job.reproducible: compression error depends on the layout");
    check(!p.compression.keeps_residuals() || c_.training.dtype != "float16",
          {key, "training.dtype"},
          "keeps an error-feedback buffer, which float16's changing loss scale invalidates; with "
          "dtype float16 use \"bfloat16\" or \"float16\"");
    check(method == Method::kBfloat16 || p.tensor == 1, {key, "parallelism.tensor"},
          "makes parameters that are replicated across tensor ranks drift apart; use \"bfloat16\", "
          "or tensor = 1");
  }

  void offload() {
    const char* what = "offloads GPU memory, but the device is the CPU; remove it";
    const bool on_cpu = c_.job.device == "cpu";
    check(!on_cpu || !c_.optimizer.offload, {"optimizer.offload", "job.device"}, what);
    check(!on_cpu || !c_.activation_checkpoint.offload,
          {"activation_checkpoint.offload", "job.device"}, what);
  }

  // All matmul sizes on a tensor rank.
  void float8() {
    if (c_.training.dtype != "float8") return;
    const ModelConfig& m = c_.model;
    check(m.num_experts == 0, {"training.dtype", "model.model_type"},
          "is not implemented for experts yet; use bfloat16");
    const std::int64_t tensor = c_.parallelism.tensor;
    const auto fits = [&](std::int64_t extent, const char* key, const std::string& what) {
      check(extent % ops::kFloat8Multiple == 0, {"training.dtype", key},
            say("needs matmul sizes in multiples of ", ops::kFloat8Multiple, ", and ", what, " is ",
                extent));
    };
    fits(c_.training.local_batch_size * c_.training.seq_len, "training.seq_len",
         "local_batch_size times seq_len");
    fits(m.hidden_size, "model.hidden_size", "model.hidden_size");
    if (m.num_attention_heads % tensor != 0 || m.intermediate_size % tensor != 0) return;
    const std::string held = tensor > 1 ? " of a tensor rank" : "";
    const std::int64_t heads = m.num_attention_heads / tensor;
    const std::int64_t keys = std::max(m.num_key_value_heads / tensor, std::int64_t{1});
    fits(heads * m.head_dim, "model.num_attention_heads", "the query size" + held);
    fits((heads + 2 * keys) * m.head_dim, "model.num_key_value_heads",
         "the size of queries, keys and values" + held);
    fits(m.intermediate_size / tensor, "model.intermediate_size", "the MLP's hidden size" + held);
  }
};

}  // namespace

void layout_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose) {
  LayoutRules rules(loaded, complaints, purpose);
  rules.layout();
}

}  // namespace trireme
