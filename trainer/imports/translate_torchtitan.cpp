#include <algorithm>
#include <cctype>

#include "trainer/config/flavors.h"
#include "trainer/imports/translation.h"

namespace trireme {
namespace {

// "llama3" and "8B" -> "llama3-8b"
std::string flavor_of(const ForeignConfig& from) {
  std::string flavor = from.text("model.name") + "-" + from.text("model.flavor");
  for (char& c : flavor) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return flavor;
}

}  // namespace

void Translation::torchtitan(const ForeignConfig& from) {
  apply(from, {
                  {"job.dump_folder", "job.dump_folder"},
                  {"job.description", "job.description"},
                  {"training.seed", "job.seed"},
                  {"debug.seed", "job.seed"},
                  {"training.deterministic", "job.reproducible"},
                  {"debug.deterministic", "job.reproducible"},
                  {"training.seq_len", "training.seq_len", {}, "2048"},
                  {"training.local_batch_size", "training.local_batch_size"},
                  {"training.batch_size", "training.local_batch_size"},
                  {"training.steps", "training.steps", {}, "10000"},
                  {"training.max_norm", "training.max_norm", {}, "1.0"},
                  {"training.mixed_precision_param", "training.dtype", {}, "bfloat16"},
                  {"optimizer.name", "optimizer.name", {{"AdamW", "AdamW"}}, "AdamW"},
                  {"optimizer.lr", "optimizer.lr", {}, "8e-4"},
                  {"optimizer.beta1", "optimizer.beta1", {}, "0.9"},
                  {"optimizer.beta2", "optimizer.beta2", {}, "0.95"},
                  {"optimizer.eps", "optimizer.eps", {}, "1e-8"},
                  {"optimizer.weight_decay", "optimizer.weight_decay", {}, "0.1"},
                  {"lr_scheduler.warmup_steps", "lr_scheduler.warmup_steps", {}, "200"},
                  {"lr_scheduler.min_lr_factor", "lr_scheduler.min_lr_factor", {}, "0"},
                  {"lr_scheduler.lr_min", "lr_scheduler.min_lr_factor"},
                  {"parallelism.data_parallel_replicate_degree", "parallelism.data_replicate"},
                  {"parallelism.tensor_parallel_degree", "parallelism.tensor"},
                  {"parallelism.pipeline_parallel_degree", "parallelism.pipeline"},
                  {"parallelism.pipeline_parallel_schedule",
                   "parallelism.schedule",
                   {{"1F1B", "1F1B"},
                    {"GPipe", "GPipe"},
                    {"Interleaved1F1B", "Interleaved1F1B"},
                    {"ZBVZeroBubble", "ZBH1"}}},
                  {"parallelism.context_parallel_degree", "parallelism.context"},
                  {"parallelism.expert_parallel_degree", "parallelism.expert"},
                  {"activation_checkpoint.mode", "activation_checkpoint.mode", {}, "selective"},
                  {"checkpoint.folder", "checkpoint.folder"},
                  {"checkpoint.interval", "checkpoint.interval"},
                  {"checkpoint.keep_latest_k", "checkpoint.keep_latest_k"},
                  {"checkpoint.async_mode",
                   "checkpoint.async",
                   {{"disabled", "false"}, {"async", "true"}, {"async_with_pinned_mem", "true"}}},
                  {"metrics.log_freq", "metrics.log_freq"},
                  {"metrics.enable_tensorboard", "metrics.enable_tensorboard"},
                  {"validation.freq", "validation.freq"},
                  {"validation.steps", "validation.steps"},
              });
  if (const auto* batch = from.find("training.global_batch_size")) {
    use(batch->key);
    if (from.text(batch->key) != "-1" &&
        !set("training.global_batch_size", from.text(batch->key), batch->key)) {
      leave(*batch, "not a number of sequences");
    }
  }
  if (const auto* shard = from.find("parallelism.data_parallel_shard_degree")) {
    use(shard->key);
    const std::string degree = from.text(shard->key);
    if (!set("parallelism.data_shard", degree == "-1" ? "0" : degree, shard->key)) {
      leave(*shard, "not a number of ranks");
    }
  }
  set("parallelism.zero", "3", "torchtitan shards weights (FSDP)");
  const std::string flavor = flavor_of(from);
  const auto names = flavor_names();
  if (std::find(names.begin(), names.end(), flavor) != names.end()) {
    use("model.name");
    use("model.flavor");
    set("model.flavor", flavor, "model.name, model.flavor");
  }
  // Without decay_ratio the rate falls from the warmup's end on.
  const bool has_plateau = from.find("lr_scheduler.decay_ratio") != nullptr;
  std::string shape = from.text("lr_scheduler.decay_type");
  if (shape.empty()) shape = "linear";
  if (has_plateau) {
    set("lr_scheduler.name", "wsd", "lr_scheduler.decay_ratio");
    apply(from, {{"lr_scheduler.decay_ratio", "lr_scheduler.decay_ratio"},
                 {"lr_scheduler.decay_type", "lr_scheduler.decay_type", {}, "linear"}});
  } else if (set("lr_scheduler.name", shape, "lr_scheduler.decay_type")) {
    use("lr_scheduler.decay_type");
  }
}

}  // namespace trireme
