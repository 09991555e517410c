#include "trainer/config/rules.h"

#include <algorithm>
#include <cmath>

#include "model/base/error.h"
#include "model/ops/float8.h"
#include "trainer/config/flavors.h"
#include "trainer/config/nearest.h"
#include "trainer/config/option.h"
#include "trainer/config/value_text.h"

namespace trireme {
namespace {

using Keys = std::vector<std::string>;

class Rules {
 public:
  Rules(const LoadedConfig& loaded, Complaints& complaints)
      : loaded_(loaded), c_(loaded.config), complaints_(complaints) {}

  void model() {
    required();
    meaningless_keys();
    const ModelConfig& m = c_.model;
    if (loaded_.origin("model.model_type").is_given() && !c_.flavor.empty()) family_of_the_flavor();
    const bool derives_head_dim = loaded_.origin("model.head_dim").kind == Origin::Kind::kDerived;
    if (m.num_attention_heads > 0 && derives_head_dim) {
      check(m.hidden_size % m.num_attention_heads == 0,
            {"model.num_attention_heads", "model.hidden_size"},
            say("does not divide hidden_size = ", m.hidden_size, "; or give head_dim"));
    }
    if (m.num_key_value_heads > 0) {
      check(m.num_attention_heads % m.num_key_value_heads == 0,
            {"model.num_key_value_heads", "model.num_attention_heads"},
            say("does not divide num_attention_heads = ", m.num_attention_heads));
    }
    if (m.position == PositionKind::kRotary) {
      check(m.head_dim % 2 == 0, {"model.head_dim", "model.hidden_size"},
            "rotary positions need an even head_dim");
    } else {
      check(c_.training.seq_len <= m.max_position_embeddings,
            {"training.seq_len", "model.max_position_embeddings"},
            say("longer than the model's learned positions, max_position_embeddings = ",
                m.max_position_embeddings));
    }
  }

  void training() {
    const TrainingConfig& t = c_.training;
    check(t.global_batch_size % t.local_batch_size == 0,
          {"training.global_batch_size", "training.local_batch_size"},
          say("must be a multiple of local_batch_size = ", t.local_batch_size));
    std::vector<std::int64_t> scales;
    for (std::int64_t scale = 1; scale <= kMostLossScale; scale *= 2) scales.push_back(scale);
    check(std::binary_search(scales.begin(), scales.end(), t.loss_scale_init),
          {"training.loss_scale_init"},
          say("is no power of two; ", near(scales, t.loss_scale_init)));
    const Keys lengths{"training.steps", "training.tokens"};
    check(t.steps > 0 || t.tokens > 0, lengths,
          "the run has no length; give training.steps or training.tokens", false);
    check(t.steps == 0 || t.tokens == 0, lengths,
          say("contradicts training.tokens = ", t.tokens, "; set one of them to 0"));
    if (t.steps == 0 && t.tokens == 0) return;
    const std::int64_t steps = total_steps(c_);
    check(static_cast<double>(steps) * static_cast<double>(tokens_per_step(c_)) < 4e18, lengths,
          "more tokens than the program can count");
    schedule(steps);
  }

  void data() {
    const DataConfig& d = c_.data;
    check(!d.train.empty(), {"data.train"},
          "nothing to train on; give train = [{ path = \"PREFIX\" }]", false);
    check(d.validation.empty() || d.split == 0, {"data.split", "data.validation"},
          "contradicts data.validation; give one of them");
    check(c_.validation.freq == 0 || !d.validation.empty() || d.split > 0,
          {"validation.freq", "data.validation", "data.split"},
          "nothing to validate on; give data.validation or data.split");
  }

  // A node's memory goes with it, so snapshots there never stand alone for long.
  void snapshots() {
    const std::int64_t each = c_.elastic.memory_interval, disk = c_.checkpoint.interval;
    check(each == 0 || (disk > 0 && each <= disk),
          {"elastic.memory_interval", "checkpoint.interval"},
          say("needs checkpoints on disk, not closer together than it, and checkpoint.interval is ",
              disk, "; take a smaller one, or another checkpoint.interval"));
  }

  void checkpoint() {
    const Keys& changes = c_.checkpoint.allow_changes;
    const auto may_be_listed = [](const std::string& key) {
      const Option* option = find_option(key);
      return key == "all" || (option != nullptr && option->effect == Effect::kNumerics);
    };
    const auto bad = std::find_if_not(changes.begin(), changes.end(), may_be_listed);
    if (bad == changes.end()) return;
    Keys known{"all"};
    for (const Option& option : options()) {
      if (option.effect == Effect::kNumerics) known.push_back(option.key);
    }
    const std::string near = nearest(*bad, known);
    check(false, {"checkpoint.allow_changes"},
          say(to_toml(*bad), " is no key that changes numerics, nor \"all\"",
              near.empty() ? "" : "; did you mean ", near.empty() ? "" : to_toml(near) + "?"));
  }

  void layout() {
    for (const char* key : {"parallelism.context", "parallelism.expert"}) {
      RunConfig config = c_;
      const std::int64_t degree = *std::get<std::int64_t*>(find_option(key)->slot(config));
      check(degree == 1, {key}, "this version does not share work along this axis; must be 1");
    }
    tensor();
    pipeline();
    data_parallel();
    compression();
    offload();
    float8();
  }

 private:
  void offload() {
    const char* what = "takes memory of a GPU to the host, and the device is the CPU; remove it";
    const bool on_cpu = c_.job.device == "cpu";
    check(!on_cpu || !c_.optimizer.offload, {"optimizer.offload", "job.device"}, what);
    check(!on_cpu || !c_.activation_checkpoint.offload,
          {"activation_checkpoint.offload", "job.device"}, what);
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
    check(p.zero < 2 || p.schedule != "ZBH1", {"parallelism.zero", "parallelism.schedule"},
          "zero = 2 and 3 let gradients go with a layer's backward, of which ZBH1 puts a part off; "
          "take 1, or another schedule");
    check(!c_.job.reproducible || p.schedule != "ZBH1",
          {"job.reproducible", "parallelism.schedule"},
          "each micro-batch's gradients have a place of their own in the tree of sums, which ZBH1 "
          "leaves before they are whole; take another schedule");
    if (!c_.job.reproducible || !divides) return;
    const Keys keys{"job.reproducible", "parallelism.zero", "parallelism.data_shard",
                    "parallelism.data_replicate", "training.global_batch_size"};
    const bool by_micro_batch = p.zero >= 2 && p.data_shard > 1;
    const std::int64_t count = by_micro_batch ? ranks : batch / each;
    check(ranks == 1 || (count & (count - 1)) == 0, keys,
          by_micro_batch
              ? say("with zero = ", p.zero, " the data ranks must be a power of two, not ", ranks)
              : say("the micro-batches of a data rank must be a power of two, not ", count,
                    "; choose global_batch_size or local_batch_size so"),
          false);
  }

  void compression() {
    const ParallelismConfig& p = c_.parallelism;
    if (p.gradient_compression == "none") return;
    const std::string key = "parallelism.gradient_compression";
    check(p.data_replicate != 1 || (p.zero == 0 && p.data_shard != 1),
          {key, "parallelism.data_replicate", "parallelism.zero"},
          "needs replicas: data_replicate > 1; ranks that divide the state send parts of it");
    check(!c_.job.reproducible, {key, "job.reproducible"},
          "contradicts job.reproducible: which rank has which gradients decides what is lost of "
          "them");
    const bool keeps_residuals =
        p.gradient_compression != "bfloat16" && p.gradient_compression != "float16";
    check(!keeps_residuals || c_.training.dtype != "float16", {key, "training.dtype"},
          "keeps what it has not sent for later steps, which may scale their loss otherwise; with "
          "dtype float16 take \"bfloat16\" or \"float16\"");
    check(p.gradient_compression == "bfloat16" || p.tensor == 1, {key, "parallelism.tensor"},
          "rounds what tensor ranks hold in common differently on each, and their copies would "
          "drift apart; take \"bfloat16\", or tensor = 1");
  }

  // What a tensor rank holds of a matrix is an equal run of its heads or columns.
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
          "means nothing with parallelism.tensor = 1; remove it, or give more tensor ranks");
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
            "schedule Interleaved1F1B needs at least 2; 1F1B is the one for 1");
      const std::int64_t count = microbatches(c_);
      check(count % p.pipeline == 0, {"training.global_batch_size", "parallelism.pipeline"},
            say("schedule Interleaved1F1B takes micro-batches in rounds of parallelism.pipeline = ",
                p.pipeline, ", and a step has ", count, "; global_batch_size ",
                near({count / p.pipeline * p.pipeline * c_.training.local_batch_size,
                      (count / p.pipeline + 1) * p.pipeline * c_.training.local_batch_size},
                     c_.training.global_batch_size)));
    } else if (p.schedule == "1F1B" || p.schedule == "GPipe" || p.schedule == "ZBH1") {
      check(p.virtual_stages == 1, keys,
            say("schedule ", p.schedule, " has one stage on a rank; Interleaved1F1B has more"));
    }
  }

  // Every extent of the factors, as a tensor rank holds them.
  void float8() {
    if (c_.training.dtype != "float8") return;
    const ModelConfig& m = c_.model;
    const std::int64_t tensor = c_.parallelism.tensor;
    const auto fits = [&](std::int64_t extent, const char* key, const std::string& what) {
      check(
          extent % ops::kFloat8Multiple == 0, {"training.dtype", key},
          say("multiplies in multiples of ", ops::kFloat8Multiple, ", and ", what, " is ", extent));
    };
    fits(c_.training.local_batch_size * c_.training.seq_len, "training.seq_len",
         "local_batch_size times seq_len");
    fits(m.hidden_size, "model.hidden_size", "model.hidden_size");
    if (m.num_attention_heads % tensor != 0 || m.intermediate_size % tensor != 0) return;
    const std::string held = tensor > 1 ? " of a tensor rank" : "";
    const std::int64_t heads = m.num_attention_heads / tensor;
    const std::int64_t keys = std::max(m.num_key_value_heads / tensor, std::int64_t{1});
    fits(heads * m.head_dim, "model.num_attention_heads", "the width of the queries" + held);
    fits((heads + 2 * keys) * m.head_dim, "model.num_key_value_heads",
         "the width of queries, keys and values" + held);
    fits(m.intermediate_size / tensor, "model.intermediate_size", "the width of the MLP" + held);
  }

  static std::vector<std::int64_t> divisors(std::int64_t whole) {
    std::vector<std::int64_t> all;
    for (std::int64_t d = 1; d * d <= whole; ++d) {
      if (whole % d != 0) continue;
      all.push_back(d);
      if (d != whole / d) all.push_back(whole / d);
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  // "possible near 3: 2, 4", of values in rising order.
  static std::string near(const std::vector<std::int64_t>& possible, std::int64_t value) {
    std::string text = say("possible near ", value, ": ");
    const auto above = std::upper_bound(possible.begin(), possible.end(), value);
    if (above != possible.begin() && *(above - 1) > 0) {
      text += std::to_string(*(above - 1));
      if (above != possible.end()) text += ", ";
    }
    if (above != possible.end()) text += std::to_string(*above);
    return text;
  }

  // Complains at the first of the keys that somebody gave, unless one of them has been
  // refused already.
  void check(bool holds, const Keys& keys, const std::string& what, bool shows_value = true) {
    if (holds) return;
    for (const std::string& key : keys) {
      if (complaints_.has_refused(key)) return;
    }
    const auto given = std::find_if(keys.begin(), keys.end(), [this](const std::string& key) {
      return loaded_.origin(key).is_given();
    });
    const std::string& first = keys.front();
    if (given == keys.end() || *given == first) {
      complaints_.add({loaded_.origin(first), first, shows_value ? value(first) : "", what});
    } else {
      // What follows is about the first key, which has its value from elsewhere.
      complaints_.add({loaded_.origin(*given), *given, value(*given),
                       say(first, shows_value ? " = " + value(first) : "", ": ", what)});
    }
  }

  std::string value(const std::string& key) const {
    RunConfig config = c_;
    return shown(to_toml(find_option(key)->slot(config)));
  }

  void required() {
    const ModelConfig& m = c_.model;
    const auto need = [this](std::int64_t size, const char* key) {
      const Keys keys{key, "model.flavor", "model.model_type"};
      if (size != 0 || refused_any(keys)) return;
      complaints_.add({{}, key, "", "missing; give it, or a model.flavor"});
      complaints_.refuse(key);
    };
    need(m.vocab_size, "model.vocab_size");
    need(m.hidden_size, "model.hidden_size");
    need(m.num_hidden_layers, "model.num_hidden_layers");
    need(m.num_attention_heads, "model.num_attention_heads");
    if (m.model_type != "gpt2") need(m.intermediate_size, "model.intermediate_size");
  }

  bool refused_any(const Keys& keys) const {
    return std::any_of(keys.begin(), keys.end(),
                       [this](const std::string& key) { return complaints_.has_refused(key); });
  }

  void meaningless_keys() {
    for (const Option& option : options()) {
      if (option.applies == nullptr || option.applies(c_)) continue;
      const bool given = loaded_.origin(option.key).is_given();
      if (option.section() == "model") {
        check(!given, {option.key, "model.model_type", "model.flavor"},
              say("means nothing to a model of type ", c_.model.model_type, "; remove it"), false);
      } else if (option.section() == "training") {
        check(!given, {option.key, "training.dtype"},
              say("means nothing to training in ", c_.training.dtype, "; remove it"), false);
      } else if (option.key == "optimizer.stochastic_rounding") {
        check(!given, {option.key, "training.dtype"},
              say("means nothing to weights in ", c_.training.dtype, "; remove it"), false);
      } else {
        check(!given, {option.key, "optimizer.name"},
              say("means nothing to ", c_.optimizer.name, "; remove it"), false);
      }
    }
  }

  void family_of_the_flavor() {
    const auto flavor = find_flavor(c_.flavor);
    if (!flavor) return;
    check(c_.model.model_type == flavor->model_type, {"model.model_type", "model.flavor"},
          say("flavor ", c_.flavor, " is of type ", flavor->model_type, "; remove one of them"));
  }

  void schedule(std::int64_t steps) {
    const LrSchedulerConfig& s = c_.lr_scheduler;
    const Keys keys{"lr_scheduler.warmup_steps", "training.steps", "training.tokens",
                    "lr_scheduler.decay_ratio"};
    check(s.warmup_steps <= steps, keys, say("longer than the run of ", steps, " steps"));
    if (s.name != "wsd" || s.warmup_steps > steps) return;
    const double decay = std::floor(s.decay_ratio * static_cast<double>(steps));
    check(static_cast<double>(s.warmup_steps) + decay <= static_cast<double>(steps), keys,
          say("warmup and decay_ratio = ", to_toml(s.decay_ratio), " together are longer than the ",
              "run of ", steps, " steps"));
  }

  const LoadedConfig& loaded_;
  const RunConfig& c_;
  Complaints& complaints_;
};

}  // namespace

void check_rules(const LoadedConfig& loaded, Complaints& complaints) {
  Rules rules(loaded, complaints);
  rules.model();
  rules.training();
  rules.data();
  rules.layout();
  rules.snapshots();
  rules.checkpoint();
}

}  // namespace trireme
