#include "trainer/convert/trainers/harmless_keys.h"

#include <span>

namespace trireme {
namespace {

struct Harmless {
  std::string_view key;   // a trailing * matches any suffix
  std::string_view only;  // harmless values, such as "0|0.0"; empty: any
};

constexpr Harmless kOfTorchtitan[] = {
    {"job.*", ""},
    {"profiling.*", ""},
    {"metrics.*", ""},
    {"comm.*", ""},
    {"memory_estimation.*", ""},
    {"debug.*", ""},
    {"compile.*", ""},
    {"fault_tolerance.enable", "false"},
    {"checkpoint.enable*", ""},
    {"checkpoint.folder", ""},
    {"checkpoint.interval", ""},
    {"checkpoint.keep_latest_k", ""},
    {"checkpoint.async_mode", ""},
    {"checkpoint.export_dtype", ""},
    {"checkpoint.last_save*", ""},
    {"checkpoint.create_seed_checkpoint", "false"},
    {"checkpoint.load_step", "-1"},
    {"checkpoint.exclude_from_loading", ""},
    {"checkpoint.initial_load_model*", ""},
    {"checkpoint.initial_load_in_hf", "false"},
    {"checkpoint.load_only", "false"},
    {"checkpoint.enable_first_step_checkpoint", ""},
    {"activation_checkpoint.*", ""},
    {"validation.*", ""},
    {"training.compile", ""},
    {"training.gc_*", ""},
    {"training.dataset*", ""},
    {"training.enable_cpu_offload", ""},
    {"training.mixed_precision_reduce", "float32"},
    {"training.dtype", "float32"},
    {"training.deterministic", ""},
    {"training.data_parallel*", ""},
    {"training.fp8", "false"},
    {"parallelism.fsdp_reshard_after_forward", ""},
    {"parallelism.enable*", ""},
    {"parallelism.disable_loss_parallel", ""},
    {"parallelism.module_fqns_per_model_part", ""},
    {"parallelism.context_parallel_rotate_method", ""},
    {"parallelism.context_parallel_load_balancer", ""},
    {"parallelism.pipeline_parallel_split_points", ""},
    {"parallelism.pipeline_parallel_layers_per_stage", ""},
    {"parallelism.pipeline_parallel_first*", ""},
    {"parallelism.pipeline_parallel_last*", ""},
    {"parallelism.pipeline_parallel_microbatch_size", ""},
    {"parallelism.expert_tensor_parallel_degree", "1"},
    {"optimizer.implementation", ""},
    {"optimizer.early_step_in_backward", "false"},
    {"model.hf_assets_path", ""},
    {"model.tokenizer_path", ""},
    {"model.print_after_conversion", ""},
    {"model.norm_type", "rmsnorm"},
    {"model.use_flex_attn", "false"},
    {"model.attn_type", "sdpa"},
    {"experimental.custom_args_module", ""},
};

// Includes options of torchrun and srun, which scripts may contain.
constexpr Harmless kOfMegatron[] = {
    {"log-*", ""},
    {"timing-log-*", ""},
    {"tensorboard-*", ""},
    {"wandb-*", ""},
    {"profile*", ""},
    {"use-pytorch-profiler", ""},
    {"record-memory-history", ""},
    {"memory-snapshot-path", ""},
    {"no-barrier-with-level-1-timing", ""},
    {"barrier-with-L1-time", ""},
    {"one-logger-*", ""},
    {"enable-one-logger", ""},
    {"no-one-logger", ""},
    {"report-*", ""},
    {"no-log-*", ""},
    {"overlap-*", ""},
    {"no-overlap-*", ""},
    {"align-*", ""},
    {"no-align-*", ""},
    {"no-async-tensor-model-parallel-allreduce", ""},
    {"tp-comm-*", ""},
    {"disable-tp-comm-*", ""},
    {"distributed-backend", ""},
    {"distributed-timeout-minutes", ""},
    {"use-flash-attn", ""},
    {"attention-backend", ""},
    {"transformer-impl", ""},
    {"use-mcore-models", ""},
    {"use-legacy-models", ""},
    {"use-cpu-initialization", ""},
    {"num-workers", ""},
    {"num-dataset-builder-threads", ""},
    {"dataloader-type", "single"},
    {"data-cache-path", ""},
    {"no-mmap-bin-files", ""},
    {"no-create-attention-mask-in-dataloader", ""},
    {"mmap-bin-files", ""},
    {"manual-gc*", ""},
    {"empty-unused-memory-level", ""},
    {"local-rank", ""},
    {"no-masked-softmax-fusion", ""},
    {"no-bias-gelu-fusion", ""},
    {"no-bias-swiglu-fusion", ""},
    {"no-bias-dropout-fusion", ""},
    {"no-rope-fusion", ""},
    {"no-gradient-accumulation-fusion", ""},
    {"no-persist-layer-norm", ""},
    {"cross-entropy-loss-fusion", ""},
    {"cross-entropy-fusion-impl", ""},
    {"apply-rope-fusion", ""},
    {"recompute-*", ""},
    {"distribute-saved-activations", ""},
    {"use-ring-exchange-p2p", ""},
    {"exit-*", ""},
    {"ckpt-*", ""},
    {"dist-ckpt-*", ""},
    {"use-dist-ckpt*", ""},
    {"async-save", ""},
    {"auto-detect-ckpt-format", ""},
    {"use-persistent-ckpt-worker", ""},
    {"non-persistent-*", ""},
    {"no-save-optim", ""},
    {"no-save-rng", ""},
    {"no-initialization", ""},
    {"no-ckpt-fully-parallel-save", ""},
    {"save-interval", ""},
    {"save-retain-interval", ""},
    {"verify-integrity", ""},
    {"log-interval", ""},
    {"eval-interval", ""},
    {"eval-iters", ""},
    {"test-mode", ""},
    {"mock-data", ""},
    {"calculate-per-token-loss", ""},
    {"tokenizer-type", ""},
    {"vocab-file", ""},
    {"merge-file", ""},
    {"tokenizer-model", ""},
    {"tiktoken-*", ""},
    {"tokenizer-metadata", ""},
    {"make-vocab-size-divisible-by", ""},
    {"legacy-tokenizer", ""},
    {"rerun-mode", ""},
    {"error-injection-*", ""},
    {"check-for-nan-in-loss-and-grad", ""},
    {"no-check-for-nan-in-loss-and-grad", ""},
    {"check-weight-hash-across-dp-replicas-interval", ""},
    {"deterministic-mode", ""},
    {"lazy-mpu-init", ""},
    {"delay-grad-reduce", ""},
    {"no-delay-grad-reduce", ""},
    {"ddp-*", ""},
    {"accumulate-allreduce-grads-in-fp32", ""},
    {"attention-softmax-in-fp32", ""},
    {"no-query-key-layer-scaling", ""},
    {"use-tp-pp-dp-mapping", ""},
    {"nccl-*", ""},
    {"high-priority-stream-groups", ""},
    {"use-sharp", ""},
    {"enable-gloo-process-groups", ""},
    {"disable-gloo-process-groups", ""},
    {"enable-cuda-graph", ""},
    {"cuda-graph-*", ""},
    {"external-cuda-graph", ""},
    {"defer-embedding-wgrad-compute", ""},
    {"wgrad-deferral-limit", ""},
    {"deallocate-pipeline-outputs", ""},
    {"no-deallocate-pipeline-outputs", ""},
    {"account-for-*", ""},
    {"weight-decay-incr-style", "constant"},
    {"rotary-percent", "1.0|1"},
    {"num-experts", "0"},
    {"context-parallel-size", "1"},
    {"expert-model-parallel-size", "1"},
    {"expert-tensor-parallel-size", "1"},
    {"lr-warmup-init", "0|0.0"},
    {"ft-*", ""},
    {"enable-ft-package", ""},
    {"nproc-per-node", ""},
    {"nnodes", ""},
    {"node-rank", ""},
    {"master-addr", ""},
    {"master-port", ""},
    {"rdzv-*", ""},
    {"max-restarts", ""},
    {"monitor-interval", ""},
    {"standalone", ""},
    {"tee", ""},
    {"redirects", ""},
    {"log-dir", ""},
    {"container-*", ""},
    {"mpi", ""},
    {"ntasks*", ""},
    {"gpus*", ""},
    {"nodes", ""},
    {"cpus-per-task", ""},
    {"output", ""},
    {"error", ""},
    {"job-name", ""},
};

constexpr Harmless kOfNanotron[] = {
    {"general.*", ""},
    {"logging.*", ""},
    {"profiler.*", ""},
    {"checkpoints.*", ""},
    {"lighteval.*", ""},
    {"s3_upload.*", ""},
    {"tokenizer.*", ""},
    {"tokens.limit_test_batches", ""},
    {"tokens.val_check_interval", ""},
    {"tokens.limit_val_batches", ""},
    {"parallelism.tp_linear_async_communication", ""},
    {"parallelism.tp_recompute_allgather", ""},
    {"parallelism.recompute_layer", ""},
    {"parallelism.expert_parallel_size", "1"},
    {"parallelism.context_parallel_size", "1"},
    {"optimizer.accumulate_grad_in_fp32", "true"},
    {"optimizer.weight_decay_exclude_named_params", ""},
    {"optimizer.optimizer_factory.torch_adam_is_fused", ""},
    {"model.ddp_bucket_cap_mb", ""},
    {"model.make_vocab_size_divisible_by", ""},
    {"model.model_config.bos_token_id", ""},
    {"model.model_config.eos_token_id", ""},
    {"model.model_config.pad_token_id", ""},
    {"model.model_config.use_cache", ""},
    {"model.model_config.pretraining_tp", "1"},
    {"model.model_config.initializer_range", ""},
    {"model.model_config.attention_bias", "false"},
    {"model.model_config.rope_interleaved", "false"},
    {"model.model_config.rope_scaling", "null"},
    {"model.model_config.z_loss_enabled", "false"},
    {"model.model_config._attn_implementation", ""},
    {"model.model_config.attention_dropout", "0|0.0"},
    {"model.model_config.no_rope_layer", "null"},
};

std::span<const Harmless> harmless_of(ForeignConfig::Kind trainer) {
  switch (trainer) {
    case ForeignConfig::Kind::kTorchtitan:
      return kOfTorchtitan;
    case ForeignConfig::Kind::kMegatron:
      return kOfMegatron;
    case ForeignConfig::Kind::kNanotron:
      return kOfNanotron;
  }
  return {};
}

bool is_one_of(std::string_view value, std::string_view values) {
  for (;;) {
    const std::size_t end = values.find('|');
    if (value == values.substr(0, end)) return true;
    if (end == std::string_view::npos) return false;
    values.remove_prefix(end + 1);
  }
}

}  // namespace

bool is_harmless(ForeignConfig::Kind trainer, const ForeignConfig::Entry& entry) {
  const std::string value = entry.values.size() == 1 ? entry.values.front() : "";
  // An empty value in a file is unset; on a command line it is an enabled switch.
  if (trainer != ForeignConfig::Kind::kMegatron && value.empty() && entry.values.size() < 2) {
    return true;
  }
  for (const Harmless& one : harmless_of(trainer)) {
    const bool is_start = one.key.ends_with('*');
    const std::string_view key = one.key.substr(0, one.key.size() - (is_start ? 1 : 0));
    if (!(is_start ? entry.key.starts_with(key) : entry.key == key)) continue;
    if (one.only.empty() || (entry.values.size() == 1 && is_one_of(value, one.only))) return true;
  }
  return false;
}

}  // namespace trireme
