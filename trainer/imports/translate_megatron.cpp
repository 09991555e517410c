#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "model/base/error.h"
#include "trainer/config/value_text.h"
#include "trainer/imports/translation.h"

namespace trireme {
namespace {

double number(const ForeignConfig& from, std::string_view key) {
  return std::strtod(from.text(key).c_str(), nullptr);
}

// "0.3 a 0.7 b", or "a b": a weight before each prefix, or none.
std::string sources(const std::vector<std::string>& words) {
  std::string text;
  std::string weight;
  for (const std::string& word : words) {
    char* end = nullptr;
    std::strtod(word.c_str(), &end);
    if (*end == '\0' && weight.empty()) {
      weight = word;
      continue;
    }
    text +=
        fmt::format("{}{{ path = {}{} }}", text.empty() ? "" : ", ",
                    to_toml(std::string_view(word)), weight.empty() ? "" : ", weight = " + weight);
    weight.clear();
  }
  return "[" + text + "]";
}

constexpr double kMostIncrements = 4096, kMostSamples = 1e15;

// The steps of its ramp: an increment more after each of equal shares of its samples. Empty where
// they do not come to `full`.
std::vector<BatchSize> sizes_of_ramp(const std::vector<std::string>& words, double full) {
  if (words.size() != 3) return {};
  std::array<double, 3> numbers{};
  for (std::size_t i = 0; i < 3; ++i) numbers[i] = std::strtod(words[i].c_str(), nullptr);
  const auto [first, increment, samples] = numbers;
  const double times = (full - first) / increment;
  if (first < 1 || increment < 1 || samples < 0 || samples > kMostSamples || times < 1 ||
      times > kMostIncrements || times != std::floor(times)) {
    return {};
  }
  const double share = samples / times;
  std::vector<BatchSize> sizes;
  double taken = 0, step = 1;
  for (double k = 0; k <= times; ++k) {
    const double size = first + k * increment;
    const double steps = std::ceil(std::max(share * (k + 1) - taken, 0.0) / size);
    if (steps == 0 && k < times) continue;  // its share was taken by the step before
    sizes.push_back({static_cast<std::int64_t>(step), static_cast<std::int64_t>(size)});
    step += steps;
    taken += steps * size;
  }
  return sizes;
}

}  // namespace

// The families that its switches can describe.
void Translation::megatron_model(const ForeignConfig& from) {
  const bool is_gated = from.find("swiglu") != nullptr;
  const bool has_rms = from.text("normalization") == "RMSNorm";
  const bool is_rotary = from.text("position-embedding-type") == "rope" ||
                         from.find("use-rotary-position-embeddings") != nullptr;
  std::string family;
  if (is_gated && has_rms && is_rotary) {
    family = from.find("qk-layernorm") != nullptr   ? "qwen3"
             : from.find("add-qkv-bias") != nullptr ? "qwen2"
                                                    : "llama";
  } else if (!is_gated && !has_rms && !is_rotary) {
    family = "gpt2";
  }
  if (family.empty() || !set("model.model_type", family, "its norms, MLP and positions")) return;
  for (const char* key :
       {"swiglu", "normalization", "position-embedding-type", "use-rotary-position-embeddings",
        "qk-layernorm", "add-qkv-bias", "disable-bias-linear", "group-query-attention"}) {
    use(key);
  }
  const bool unties = from.find("untie-embeddings-and-output-weights") != nullptr;
  use("untie-embeddings-and-output-weights");
  set("model.tie_word_embeddings", unties ? "false" : "true",
      unties ? "untie-embeddings-and-output-weights" : "default of Megatron-LM");
  apply(from, {{"norm-epsilon",
                family == "gpt2" ? "model.layer_norm_epsilon" : "model.rms_norm_eps",
                {},
                "1e-5"}});
  if (is_rotary) apply(from, {{"rotary-base", "model.rope_theta", {}, "10000"}});
}

void Translation::megatron(const ForeignConfig& from) {
  apply(from, {
                  {"num-layers", "model.num_hidden_layers"},
                  {"hidden-size", "model.hidden_size"},
                  {"ffn-hidden-size", "model.intermediate_size"},
                  {"num-attention-heads", "model.num_attention_heads"},
                  {"num-query-groups", "model.num_key_value_heads"},
                  {"kv-channels", "model.head_dim"},
                  {"max-position-embeddings", "model.max_position_embeddings"},
                  {"vocab-size", "model.vocab_size"},
                  {"init-method-std", "model.initializer_range", {}, "0.02"},
                  {"seed", "job.seed", {}, "1234"},
                  {"seq-length", "training.seq_len"},
                  {"micro-batch-size", "training.local_batch_size"},
                  {"global-batch-size", "training.global_batch_size"},
                  {"train-iters", "training.steps"},
                  {"clip-grad", "training.max_norm", {}, "1.0"},
                  {"bf16", "training.dtype", {{"", "bfloat16"}}},
                  {"fp16", "training.dtype", {{"", "float16"}}},
                  {"optimizer",
                   "optimizer.name",
                   {{"adam", "AdamW"}, {"sgd", "SGD"}, {"muon", "Muon"}},
                   "AdamW"},
                  {"lr", "optimizer.lr"},
                  {"weight-decay", "optimizer.weight_decay", {}, "0.01"},
                  {"lr-decay-style",
                   "lr_scheduler.name",
                   {{"linear", "linear"},
                    {"cosine", "cosine"},
                    {"constant", "constant"},
                    {"WSD", "wsd"},
                    {"inverse-square-root", "inverse_sqrt"}},
                   "linear"},
                  {"lr-warmup-iters", "lr_scheduler.warmup_steps", {}, "0"},
                  {"tensor-model-parallel-size", "parallelism.tensor"},
                  {"sequence-parallel", "parallelism.sequence"},
                  {"pipeline-model-parallel-size", "parallelism.pipeline"},
                  {"context-parallel-size", "parallelism.context"},
                  {"expert-model-parallel-size", "parallelism.expert"},
                  {"recompute-granularity",
                   "activation_checkpoint.mode",
                   {{"full", "full"}, {"selective", "selective"}}},
                  {"recompute-activations", "activation_checkpoint.mode", {{"", "selective"}}},
                  {"tokenizer-model", "data.tokenizer"},
                  {"save", "checkpoint.folder"},
                  {"save-interval", "checkpoint.interval"},
                  {"log-interval", "metrics.log_freq", {}, "100"},
                  {"eval-interval", "validation.freq"},
                  {"eval-iters", "validation.steps"},
              });
  if (const auto* ramp = from.find("rampup-batch-size"); ramp != nullptr) {
    auto sizes = sizes_of_ramp(ramp->values, number(from, "global-batch-size"));
    if (sizes.empty()) {
      leave(*ramp, "needs a global-batch-size that its increments come to");
    } else {
      use("rampup-batch-size");
      entries_["training.rampup_batch_size"] = {to_toml(Slot(&sizes)), "rampup-batch-size"};
    }
  }
  const bool is_adam = from.find("optimizer") == nullptr || from.text("optimizer") == "adam";
  if (is_adam) {
    apply(from, {{"adam-beta1", "optimizer.beta1", {}, "0.9"},
                 {"adam-beta2", "optimizer.beta2", {}, "0.999"},
                 {"adam-eps", "optimizer.eps", {}, "1e-8"}});
  }
  megatron_model(from);
  const bool shards = from.find("use-distributed-optimizer") != nullptr;
  use("use-distributed-optimizer");
  set("parallelism.zero", shards ? "1" : "0",
      shards ? "use-distributed-optimizer" : "default of Megatron-LM");
  if (from.find("tensorboard-dir") != nullptr) {
    use("tensorboard-dir");
    set("metrics.enable_tensorboard", "true", "tensorboard-dir");
  }
  if (from.find("min-lr") != nullptr && number(from, "lr") > 0) {
    use("min-lr");
    set("lr_scheduler.min_lr_factor", say(number(from, "min-lr") / number(from, "lr")),
        "min-lr over lr");
  } else {
    set("lr_scheduler.min_lr_factor", "0", "default of Megatron-LM");
  }
  if (from.text("lr-decay-iters") == from.text("train-iters")) use("lr-decay-iters");
  if (const double per_stage = number(from, "num-layers-per-virtual-pipeline-stage");
      per_stage > 0) {
    const double stages =
        number(from, "num-layers") / number(from, "pipeline-model-parallel-size") / per_stage;
    if (set("parallelism.virtual_stages", say(stages), "num-layers-per-virtual-pipeline-stage")) {
      use("num-layers-per-virtual-pipeline-stage");
      set("parallelism.schedule", "Interleaved1F1B", "num-layers-per-virtual-pipeline-stage");
    }
  }
  if (from.find("train-samples") != nullptr &&
      set("training.tokens",
          fmt::format("{:.0f}", number(from, "train-samples") * number(from, "seq-length")),
          "train-samples times seq-length")) {
    use("train-samples");
  }
  // Shares of training, validation and test.
  // NOLINTBEGIN(cert-err34-c): what is no share is none of our key's values
  if (double train = 0, held_out = 0, test = 0;
      std::sscanf(from.text("split").c_str(), "%lf,%lf,%lf", &train, &held_out, &test) >= 2 &&
      set("data.split", say(held_out / (train + held_out + test)), "split")) {
    use("split");
  }
  // NOLINTEND(cert-err34-c)
  if (const auto* data = from.find("data-path"); data != nullptr && !data->values.empty()) {
    use("data-path");
    entries_["data.train"] = {sources(data->values), "data-path"};
  }
  for (const char* key : {"attention-dropout", "hidden-dropout"}) {
    if (from.find(key) != nullptr && number(from, key) == 0) use(key);
    if (from.find(key) == nullptr) left_.push_back(std::string(key) + " = 0.1 (its default)");
  }
}

}  // namespace trireme
