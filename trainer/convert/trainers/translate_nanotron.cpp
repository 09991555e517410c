#include <fmt/format.h>

#include <cstdlib>

#include "model/base/error.h"
#include "trainer/config/value_text.h"
#include "trainer/convert/trainers/translation.h"

namespace trireme {

namespace {

const std::string kRate = "optimizer.learning_rate_scheduler.";

double number_in(const ForeignConfig& from, const std::string& key) {
  return std::strtod(from.text(key).c_str(), nullptr);
}

}  // namespace

void Translation::nanotron(const ForeignConfig& from) {
  const std::string model = "model.model_config.";
  apply(from, nanotron_keys());
  if (!from.text(model + "rms_norm_eps").empty()) {
    set("model.model_type", "llama", "rms_norm_eps");
    use(model + "is_llama_config");
  }
  // nanotron has one data-parallel axis, with or without sharding.
  if (from.find("parallelism.dp") != nullptr &&
      set("parallelism.data_shard", from.text("parallelism.dp"), "parallelism.dp")) {
    use("parallelism.dp");
  }
  const std::string accumulation = "tokens.batch_accumulation_per_replica";
  const double batch = number_in(from, "tokens.micro_batch_size") * number_in(from, accumulation) *
                       number_in(from, "parallelism.dp");
  if (batch > 0 && set("training.global_batch_size", say(batch),
                       "micro_batch_size x batch_accumulation_per_replica x dp")) {
    use(accumulation);
  }
  nanotron_rate(from);
  nanotron_data(from);
}

// Datasets of the first stage become data.train, those of later stages data.stages. They keep their
// names, as the prefixes written by 'trireme tokenize' are unknown.
void Translation::nanotron_data(const ForeignConfig& from) {
  struct Stage {
    std::string start = "1";
    std::string sources;
  };
  std::map<std::size_t, Stage> stages;
  const auto add = [](Stage& stage, const std::string& path, const std::string& weight) {
    stage.sources +=
        fmt::format("{}{{ path = {}{} }}", stage.sources.empty() ? "" : ", ",
                    to_toml(std::string_view(path)), weight.empty() ? "" : ", weight = " + weight);
  };
  const std::string start = "data_stages.";
  for (const ForeignConfig::Entry& entry : from.entries) {
    if (!entry.key.starts_with(start)) continue;
    char* end = nullptr;
    const std::size_t at = std::strtoul(entry.key.c_str() + start.size(), &end, 10);
    const std::string rest = *end == '.' ? end + 1 : end;
    Stage& stage = stages[at];
    const std::string prefix = start + std::to_string(at) + ".data.dataset.";
    bool is_source = false;
    for (const std::string name : {"hf_dataset_or_datasets", "dataset_folder"}) {
      const std::string list = "data.dataset." + name;
      if (rest == list) {
        const auto* weights = from.find(prefix + "dataset_weights");
        for (std::size_t i = 0; i < entry.values.size(); ++i) {
          const bool has_weight = weights != nullptr && i < weights->values.size();
          add(stage, entry.values[i], has_weight ? weights->values[i] : "");
        }
        is_source = true;
      } else if (rest.starts_with(list + ".")) {  // a dataset and its weight
        add(stage, rest.substr(list.size() + 1), from.text(entry.key));
        is_source = true;
      }
    }
    if (is_source || rest == "data.dataset.dataset_weights") {
      use(entry.key);
    } else if (rest == "start_training_step") {
      stage.start = from.text(entry.key);
      use(entry.key);
    } else {
      note(entry, "");
    }
  }
  std::string later;
  for (const auto& [at, stage] : stages) {
    const std::string key = fmt::format("data_stages.{}", at);
    if (stage.sources.empty()) {
      if (stages.size() > 1) refuse(key, " (has no dataset)");
    } else if (at == 0) {
      entries_["data.train"] = {"[" + stage.sources + "]",
                                key + "; tokenize each dataset and set its prefix"};
    } else {
      later += fmt::format("{}{{ from_step = {}, train = [{}] }}", later.empty() ? "" : ", ",
                           stage.start, stage.sources);
    }
  }
  if (!later.empty()) entries_["data.stages"] = {"[" + later + "]", "data_stages"};
}

void Translation::nanotron_rate(const ForeignConfig& from) {
  // The decay starts after the warmup or a plateau and ends with the run.
  const double warmup = number_in(from, kRate + "lr_warmup_steps");
  const double steps = number_in(from, "tokens.train_steps");
  const double decay = number_in(from, kRate + "lr_decay_steps");
  const std::string style = from.text(kRate + "lr_decay_style");
  const bool has_plateau = decay > 0 && warmup + decay < steps;
  const std::string shape = style == "1-sqrt" ? "sqrt" : style;
  if (has_plateau && set("lr_scheduler.decay_type", shape, kRate + "lr_decay_style")) {
    set("lr_scheduler.name", "wsd", kRate + "lr_decay_steps");
    set("lr_scheduler.decay_ratio", exact(decay / steps), kRate + "lr_decay_steps");
    for (const char* key : {"lr_decay_style", "lr_decay_steps", "lr_decay_starting_step"}) {
      use(kRate + key);
    }
  } else if (!has_plateau && set("lr_scheduler.name", style, kRate + "lr_decay_style")) {
    use(kRate + "lr_decay_style");
    use(kRate + "lr_decay_steps");
    if (number_in(from, kRate + "lr_decay_starting_step") == warmup)
      use(kRate + "lr_decay_starting_step");
  }
  if (from.text(kRate + "lr_warmup_style") == "linear") use(kRate + "lr_warmup_style");
  if (number_in(from, kRate + "learning_rate") > 0 &&
      from.find(kRate + "min_decay_lr") != nullptr &&
      set("lr_scheduler.min_lr_factor",
          exact(number_in(from, kRate + "min_decay_lr") / number_in(from, kRate + "learning_rate")),
          kRate + "min_decay_lr")) {
    use(kRate + "min_decay_lr");
  }
}

}  // namespace trireme
