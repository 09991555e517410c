#include <cstdlib>

#include "model/base/error.h"
#include "trainer/imports/translation.h"

namespace trireme {

void Translation::nanotron(const ForeignConfig& from) {
  const std::string model = "model.model_config.";
  const std::string rate = "optimizer.learning_rate_scheduler.";
  const std::string factory = "optimizer.optimizer_factory.";
  const Words words_of_type{{"bfloat16", "bfloat16"},
                            {"float16", "float16"},
                            {"float32", "float32"},
                            {"torch.bfloat16", "bfloat16"},
                            {"torch.float32", "float32"}};
  apply(
      from,
      {
          {model + "vocab_size", "model.vocab_size"},
          {model + "hidden_size", "model.hidden_size"},
          {model + "intermediate_size", "model.intermediate_size"},
          {model + "num_hidden_layers", "model.num_hidden_layers"},
          {model + "num_attention_heads", "model.num_attention_heads"},
          {model + "num_key_value_heads", "model.num_key_value_heads"},
          {model + "max_position_embeddings", "model.max_position_embeddings"},
          {model + "rms_norm_eps", "model.rms_norm_eps"},
          {model + "rope_theta", "model.rope_theta"},
          {model + "hidden_act", "model.hidden_act"},
          {model + "tie_word_embeddings", "model.tie_word_embeddings"},
          {"model.init_method.std", "model.initializer_range"},
          {"model.dtype", "training.dtype", words_of_type},
          {"general.seed", "job.seed"},
          {"general.run", "job.description"},
          {"tokens.sequence_length", "training.seq_len"},
          {"tokens.micro_batch_size", "training.local_batch_size"},
          {"tokens.train_steps", "training.steps"},
          {"tokens.val_check_interval", "validation.freq"},
          {"tokens.limit_val_batches", "validation.steps"},
          {"optimizer.clip_grad", "training.max_norm"},
          {"optimizer.weight_decay", "optimizer.weight_decay"},
          {"optimizer.zero_stage", "parallelism.zero"},
          {factory + "name", "optimizer.name", {{"adamW", "AdamW"}, {"sgd", "SGD"}}},
          {factory + "adam_beta1", "optimizer.beta1"},
          {factory + "adam_beta2", "optimizer.beta2"},
          {factory + "adam_eps", "optimizer.eps"},
          {rate + "learning_rate", "optimizer.lr"},
          {rate + "lr_warmup_steps", "lr_scheduler.warmup_steps"},
          {"parallelism.tp", "parallelism.tensor"},
          {"parallelism.pp", "parallelism.pipeline"},
          {"parallelism.context_parallel_size", "parallelism.context"},
          {"parallelism.expert_parallel_size", "parallelism.expert"},
          {"parallelism.pp_engine", "parallelism.schedule", {{"1f1b", "1F1B"}, {"afab", "GPipe"}}},
          {"parallelism.tp_mode",
           "parallelism.sequence",
           {{"REDUCE_SCATTER", "true"}, {"ALL_REDUCE", "false"}}},
          {"parallelism.recompute_layer",
           "activation_checkpoint.mode",
           {{"true", "full"}, {"false", "none"}}},
          {"checkpoints.checkpoints_path", "checkpoint.folder"},
          {"checkpoints.checkpoint_interval", "checkpoint.interval"},
          {"checkpoints.resume_checkpoint_path", "checkpoint.initial_load_path"},
          {"logging.iteration_step_info_interval", "metrics.log_freq"},
          {"tokenizer.tokenizer_name_or_path", "data.tokenizer"},
      });
  const auto number = [&](const std::string& key) {
    return std::strtod(from.text(key).c_str(), nullptr);
  };
  if (!from.text(model + "rms_norm_eps").empty()) {
    set("model.model_type", "llama", "its RMSNorm");
    use(model + "is_llama_config");
  }
  // Its ranks share the state, or not at all, along one axis.
  if (from.find("parallelism.dp") != nullptr &&
      set("parallelism.data_shard", from.text("parallelism.dp"), "parallelism.dp")) {
    use("parallelism.dp");
  }
  const std::string accumulation = "tokens.batch_accumulation_per_replica";
  const double batch =
      number("tokens.micro_batch_size") * number(accumulation) * number("parallelism.dp");
  if (batch > 0 && set("training.global_batch_size", say(batch),
                       "micro_batch_size x batch_accumulation_per_replica x dp")) {
    use(accumulation);
  }
  // The decay starts after the warmup, or after a plateau, and ends with the run.
  const double warmup = number(rate + "lr_warmup_steps");
  const double steps = number("tokens.train_steps");
  const double decay = number(rate + "lr_decay_steps");
  const std::string style = from.text(rate + "lr_decay_style");
  const bool has_plateau = decay > 0 && warmup + decay < steps;
  const std::string shape = style == "1-sqrt" ? "sqrt" : style;
  if (has_plateau && set("lr_scheduler.decay_type", shape, rate + "lr_decay_style")) {
    set("lr_scheduler.name", "wsd", rate + "lr_decay_steps");
    set("lr_scheduler.decay_ratio", say(decay / steps), rate + "lr_decay_steps");
    for (const char* key : {"lr_decay_style", "lr_decay_steps", "lr_decay_starting_step"}) {
      use(rate + key);
    }
  } else if (!has_plateau && set("lr_scheduler.name", style, rate + "lr_decay_style")) {
    use(rate + "lr_decay_style");
    use(rate + "lr_decay_steps");
    if (number(rate + "lr_decay_starting_step") == warmup) use(rate + "lr_decay_starting_step");
  }
  if (from.text(rate + "lr_warmup_style") == "linear") use(rate + "lr_warmup_style");
  if (number(rate + "learning_rate") > 0 && from.find(rate + "min_decay_lr") != nullptr &&
      set("lr_scheduler.min_lr_factor",
          say(number(rate + "min_decay_lr") / number(rate + "learning_rate")),
          rate + "min_decay_lr")) {
    use(rate + "min_decay_lr");
  }
}

}  // namespace trireme
