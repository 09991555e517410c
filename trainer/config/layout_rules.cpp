#include <algorithm>
#include <cstdint>

#include "model/base/error.h"
#include "model/ops/float8.h"
#include "trainer/config/batch_size.h"
#include "trainer/config/option.h"
#include "trainer/config/rule_check.h"
#include "trainer/config/rules_by_subject.h"

namespace trireme {
namespace {

class LayoutRules : public RuleCheck {
 public:
  using RuleCheck::RuleCheck;

  void layout() {
    for (const char* key : {"parallelism.context", "parallelism.expert"}) {
      RunConfig config = c_;
      const std::int64_t degree = *std::get<std::int64_t*>(find_option(key)->slot(config));
      check(degree == 1, {key}, "not implemented yet; must be 1");
    }
    tensor();
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
            say("does not divide ", key, " = ", whole, "; ", near(divisors(whole), p.tensor)));
    };
    if (m.num_attention_heads > 0) divides(m.num_attention_heads, "model.num_attention_heads");
    if (m.intermediate_size > 0) divides(m.intermediate_size, "model.intermediate_size");
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
    const std::int64_t tokens = c_.training.local_batch_size * c_.training.seq_len;
    check(!p.sequence || tokens % p.tensor == 0,
          {"parallelism.tensor", "parallelism.sequence", "training.seq_len"},
          say("does not divide the ", tokens, " tokens of a micro-batch, as parallelism.sequence ",
              "needs; ", near(divisors(tokens), p.tensor)));
  }

  void pipeline() {
    const ParallelismConfig& p = c_.parallelism;
    const std::int64_t layers = c_.model.num_hidden_layers;
    const std::int64_t stages = p.pipeline * p.virtual_stages;
    if (layers > 0) {
      check(stages <= layers,
            {"parallelism.pipeline", "parallelism.virtual_stages", "model.num_hidden_layers"},
            say(stages, " stages for ", layers, " layers; at most ", layers / p.virtual_stages,
                p.virtual_stages > 1 ? say(" with virtual_stages = ", p.virtual_stages) : ""));
    }
    const Keys keys{"parallelism.virtual_stages", "parallelism.schedule"};
    if (p.schedule == "Interleaved1F1B") {
      check(p.virtual_stages > 1 || p.pipeline == 1, keys,
            "schedule Interleaved1F1B needs at least 2; use 1F1B for 1");
      const std::int64_t count = micro_batches_per_step(c_);
      check(count % p.pipeline == 0, {"training.global_batch_size", "parallelism.pipeline"},
            say("schedule Interleaved1F1B needs micro-batches in multiples of parallelism.pipeline "
                "= ",
                p.pipeline, ", but a step has ", count, "; global_batch_size ",
                near({count / p.pipeline * p.pipeline * c_.training.local_batch_size,
                      (count / p.pipeline + 1) * p.pipeline * c_.training.local_batch_size},
                     c_.training.global_batch_size)));
      for (const BatchSize& size : c_.training.rampup_batch_size) {
        const std::int64_t each = c_.training.local_batch_size * data_ranks(p);
        check(size.sequences % each != 0 || size.sequences / each % p.pipeline == 0,
              {kRampupKey, "parallelism.pipeline"},
              say("schedule Interleaved1F1B needs micro-batches in multiples of "
                  "parallelism.pipeline = ",
                  p.pipeline, ", but a step of ", size.sequences, " sequences has ",
                  size.sequences / each));
      }
    } else if (p.schedule == "1F1B" || p.schedule == "GPipe" || p.schedule == "ZBH1") {
      check(p.virtual_stages == 1, keys,
            say("schedule ", p.schedule, " has one stage per rank; use Interleaved1F1B for more"));
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
    check(p.zero < 2 || p.schedule != "ZBH1", {"parallelism.zero", "parallelism.schedule"},
          "zero = 2 and 3 reduce a layer's gradients during its backward, but ZBH1 defers weight "
          "gradients; use zero = 1 or another schedule");
    check(!c_.job.reproducible || p.schedule != "ZBH1",
          {"job.reproducible", "parallelism.schedule"},
          "reproducible sums need the gradients of a micro-batch together, but ZBH1 defers weight "
          "gradients; use another schedule");
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
    if (p.gradient_compression == "none") return;
    const std::string key = "parallelism.gradient_compression";
    check(p.data_replicate != 1 || (p.zero == 0 && p.data_shard != 1),
          {key, "parallelism.data_replicate", "parallelism.zero"},
          "needs data_replicate > 1: only gradients between replicas are compressed");
    check(!c_.job.reproducible, {key, "job.reproducible"},
          "conflicts with job.reproducible: compression error depends on the layout");
    const bool keeps_residuals =
        p.gradient_compression != "bfloat16" && p.gradient_compression != "float16";
    check(!keeps_residuals || c_.training.dtype != "float16", {key, "training.dtype"},
          "keeps an error-feedback buffer, which float16's changing loss scale invalidates; with "
          "dtype float16 use \"bfloat16\" or \"float16\"");
    check(p.gradient_compression == "bfloat16" || p.tensor == 1, {key, "parallelism.tensor"},
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
