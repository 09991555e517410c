#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "model/base/error.h"
#include "trainer/config/value_text.h"
#include "trainer/convert/trainers/translation.h"

namespace trireme {
namespace {

double number(const ForeignConfig& from, std::string_view key) {
  return std::strtod(from.text(key).c_str(), nullptr);
}

// "0.3 a 0.7 b" or "a b": prefixes with or without weights.
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

// Batch size ramp: one increment after each of equal parts of its samples. Empty if it does not
// reach `full`.
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
    if (steps == 0 && k < times) continue;  // the previous step used its samples
    sizes.push_back({static_cast<std::int64_t>(step), static_cast<std::int64_t>(size)});
    step += steps;
    taken += steps * size;
  }
  return sizes;
}

}  // namespace

// Selects the model family. Switches that the family does not explain stay unused and are refused.
void Translation::megatron_model(const ForeignConfig& from) {
  const auto has = [&](const char* key) { return from.find(key) != nullptr; };
  const bool is_gated = has("swiglu");
  const bool has_rms = from.text("normalization") == "RMSNorm";
  const std::string positions = from.text("position-embedding-type");
  const bool is_rotary = positions == "rope" || has("use-rotary-position-embeddings");
  const bool is_learned = !is_rotary && (positions.empty() || positions == "learned_absolute");
  const bool is_layer_norm =
      from.text("normalization").empty() || from.text("normalization") == "LayerNorm";
  std::string family;
  std::vector<const char*> explained = {"swiglu", "normalization", "position-embedding-type",
                                        "use-rotary-position-embeddings",
                                        "untie-embeddings-and-output-weights"};
  if (is_gated && has_rms && is_rotary) {
    family = has("qk-layernorm") ? "qwen3" : has("add-qkv-bias") ? "qwen2" : "llama";
    if (family == "qwen3") explained.push_back("qk-layernorm");
    if (family == "qwen2") explained.push_back("add-qkv-bias");
    explained.insert(explained.end(), {"disable-bias-linear", "group-query-attention"});
    if (!has("disable-bias-linear")) {
      refuse("disable-bias-linear",
             " (not given: its linear layers have biases, those of " + family + " have none)");
    }
  } else if (!is_gated && is_layer_norm && is_learned) {
    family = "gpt2";
  }
  if (family.empty() || !set("model.model_type", family, "its norms, MLP and positions")) {
    for (const char* key : explained) {
      if (const auto* entry = from.find(key)) {
        leave(*entry, "no model family has this combination of norm, MLP and position embedding");
      }
    }
    return;
  }
  for (const char* key : explained) use(key);
  const bool unties = has("untie-embeddings-and-output-weights");
  set("model.tie_word_embeddings", unties ? "false" : "true",
      unties ? "untie-embeddings-and-output-weights" : "default of Megatron-LM");
  apply(from, {{"norm-epsilon",
                family == "gpt2" ? "model.layer_norm_epsilon" : "model.rms_norm_eps",
                {},
                "1e-5"}});
  if (is_rotary) apply(from, {{"rotary-base", "model.rope_theta", {}, "10000"}});
  if (is_rotary && has("use-rope-scaling")) {
    use("use-rope-scaling");
    use("rope-scaling-factor");
    const std::string factor = has("rope-scaling-factor") ? from.text("rope-scaling-factor") : "8";
    entries_["model.rope_scaling"] = {
        "{ rope_type = \"llama3\", factor = " + exact(std::strtod(factor.c_str(), nullptr)) + " }",
        "use-rope-scaling"};
  }
}

// Samples can be converted to steps if all steps have the same batch size.
void Translation::megatron_rate(const ForeignConfig& from) {
  const double batch = number(from, "global-batch-size");
  const double ends = from.find("train-samples") != nullptr ? number(from, "train-samples") / batch
                                                            : number(from, "train-iters");
  const double decay_ends =
      from.find("lr-decay-samples") != nullptr ? number(from, "lr-decay-samples") / batch
      : from.find("lr-decay-iters") != nullptr ? number(from, "lr-decay-iters")
                                               : ends;
  const bool is_even = batch > 0 && from.find("rampup-batch-size") == nullptr;
  for (const char* key : {"lr-decay-iters", "lr-decay-samples"}) {
    const auto* entry = from.find(key);
    if (entry == nullptr) continue;
    if (decay_ends == ends) {
      use(key);
    } else {
      leave(*entry, "the decay always ends with the run");
    }
  }
  double warmup = 0;
  const char* given = nullptr;
  for (const char* key : {"lr-warmup-iters", "lr-warmup-samples", "lr-warmup-fraction"}) {
    const auto* entry = from.find(key);
    if (entry == nullptr) continue;
    use(key);
    const std::string_view name = key;
    const double value = number(from, key);
    const double steps = name == "lr-warmup-samples"    ? (value == 0 ? 0 : value / batch)
                         : name == "lr-warmup-fraction" ? value * decay_ends
                                                        : value;
    const bool is_count = !(name == "lr-warmup-samples" && value != 0 && !is_even);
    if (!is_count || steps != std::floor(steps) || (steps != 0 && given != nullptr)) {
      leave(*entry, is_count ? "not a whole number of steps, or a second definition of the warmup"
                             : "counted in samples, but the batch size ramps up");
    } else if (steps != 0) {
      warmup = steps;
      given = key;
    }
  }
  set("lr_scheduler.warmup_steps", fmt::format("{:.0f}", warmup),
      given != nullptr ? given : "default of Megatron-LM");
  if (from.text("lr-decay-style") == "WSD") {
    const double decay = from.find("lr-wsd-decay-samples") != nullptr
                             ? number(from, "lr-wsd-decay-samples") / batch
                             : number(from, "lr-wsd-decay-iters");
    if (ends > 0 && decay > 0 && decay_ends == ends && is_even &&
        set("lr_scheduler.decay_ratio", exact(decay / ends), "lr-wsd-decay over the run")) {
      use("lr-wsd-decay-iters");
      use("lr-wsd-decay-samples");
    }
    apply(from, {{"lr-wsd-decay-style",
                  "lr_scheduler.decay_type",
                  {{"linear", "linear"},
                   {"cosine", "cosine"},
                   {"exponential", "exponential"},
                   {"minus_sqrt", "sqrt"}},
                  "exponential"}});
  }
}

void Translation::megatron_data(const ForeignConfig& from) {
  // Fractions of training, validation and test.
  // NOLINTBEGIN(cert-err34-c): invalid fractions are refused by set()
  if (double train = 0, held_out = 0, test = 0;
      std::sscanf(from.text("split").c_str(), "%lf,%lf,%lf", &train, &held_out, &test) >= 2 &&
      set("data.split", exact(held_out / (train + held_out + test)), "split")) {
    use("split");
  }
  // NOLINTEND(cert-err34-c)
  if (const auto* data = from.find("data-path"); data != nullptr && !data->values.empty()) {
    use("data-path");
    entries_["data.train"] = {sources(data->values), "data-path"};
  }
}

void Translation::megatron_layout(const ForeignConfig& from) {
  const bool shards = from.find("use-distributed-optimizer") != nullptr;
  use("use-distributed-optimizer");
  set("parallelism.zero", shards ? "1" : "0",
      shards ? "use-distributed-optimizer" : "default of Megatron-LM");
  if (const double per_stage = number(from, "num-layers-per-virtual-pipeline-stage");
      per_stage > 0) {
    const double stages =
        number(from, "num-layers") / number(from, "pipeline-model-parallel-size") / per_stage;
    if (set("parallelism.virtual_stages", say(stages), "num-layers-per-virtual-pipeline-stage")) {
      use("num-layers-per-virtual-pipeline-stage");
      set("parallelism.schedule", "Interleaved1F1B", "num-layers-per-virtual-pipeline-stage");
    }
  }
}

void Translation::megatron_batch(const ForeignConfig& from) {
  if (const auto* ramp = from.find("rampup-batch-size"); ramp != nullptr) {
    auto sizes = sizes_of_ramp(ramp->values, number(from, "global-batch-size"));
    if (sizes.empty()) {
      leave(*ramp, "its increments do not reach global-batch-size");
    } else {
      use("rampup-batch-size");
      entries_["training.rampup_batch_size"] = {to_toml(Slot(&sizes)), "rampup-batch-size"};
    }
  }
  if (from.find("train-samples") != nullptr &&
      set("training.tokens",
          fmt::format("{:.0f}", number(from, "train-samples") * number(from, "seq-length")),
          "train-samples times seq-length")) {
    use("train-samples");
  }
}

void Translation::megatron(const ForeignConfig& from) {
  if (from.find("eval-iters") != nullptr && number(from, "eval-iters") == 0) {
    for (const char* key : {"eval-iters", "eval-interval"}) {
      if (const auto* entry = from.find(key)) note(*entry, "no validation");
    }
  }
  apply(from, megatron_keys());
  if (from.find("num-query-groups") != nullptr && from.find("group-query-attention") == nullptr) {
    leave(*from.find("num-query-groups"), "has no effect without group-query-attention");
  }
  const auto* load = from.find("load");
  if (load != nullptr && from.text("load") == from.text("save")) {
    note(*load, "runs resume automatically");
  } else if (load != nullptr) {
    leave(*load, "loads Megatron-LM weights");
  }
  if (from.text("bf16").empty() && from.find("fp16") == nullptr) {
    for (const char* key : {"loss-scale", "initial-loss-scale", "min-loss-scale",
                            "loss-scale-window", "hysteresis"}) {
      if (const auto* entry = from.find(key)) note(*entry, "float16 only");
    }
  }
  megatron_batch(from);
  const bool is_adam = from.find("optimizer") == nullptr || from.text("optimizer") == "adam";
  if (is_adam) {
    apply(from, {{"adam-beta1", "optimizer.beta1", {}, "0.9"},
                 {"adam-beta2", "optimizer.beta2", {}, "0.999"},
                 {"adam-eps", "optimizer.eps", {}, "1e-8"}});
  }
  megatron_model(from);
  megatron_rate(from);
  if (from.find("tensorboard-dir") != nullptr) {
    use("tensorboard-dir");
    set("metrics.enable_tensorboard", "true", "tensorboard-dir");
  }
  if (from.find("min-lr") != nullptr && number(from, "lr") > 0) {
    use("min-lr");
    set("lr_scheduler.min_lr_factor", exact(number(from, "min-lr") / number(from, "lr")),
        "min-lr over lr");
  } else {
    set("lr_scheduler.min_lr_factor", "0", "default of Megatron-LM");
  }
  megatron_layout(from);
  megatron_data(from);
  apply(from, {{"attention-dropout", "training.attention_dropout", {}, "0.1"},
               {"hidden-dropout", "training.residual_dropout", {}, "0.1"}});
  if (const auto hidden = entries_.find("training.residual_dropout"); hidden != entries_.end()) {
    entries_["training.embedding_dropout"] = hidden->second;  // as in Megatron-LM
  }
}

}  // namespace trireme
