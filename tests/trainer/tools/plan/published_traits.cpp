#include "tests/trainer/tools/plan/published_traits.h"

#include <algorithm>

#include "tests/trainer/tools/plan/published_torch_traits.h"

namespace trireme::published {
namespace {

// By its recipes (src/megatron/bridge/perf_recipes): a fused loss, gradients summed and reduced in
// bfloat16, cuDNN's attention; user buffers overlap tensor parallel messages, but not with NVFP4.
// Transformer Engine quantizes in kernels of their own, with a pass for the largest magnitude where
// a tensor has one scale or, as in NVFP4, another in addition to those of blocks.
void set_bridge_traits(Run& run, const std::string& precision, TrainerTraits& traits) {
  const bool is_nvfp4 = says(precision, "nvfp4"), is_mxfp8 = says(precision, "mxfp8");
  traits = {.divides_boundary = true,
            .tensor_overlap = is_nvfp4 ? TensorOverlap::kWeightGradients : TensorOverlap::kAll,
            .gradient_bytes = 2,
            .gradient_traffic = 4,
            .quantizing_reads = precision == "bf16" ? 0.0
                                : is_mxfp8          ? 1.0
                                                    : 2.0,
            .narrow = is_mxfp8   ? NumberFormat::kMxfp8
                      : is_nvfp4 ? NumberFormat::kNvfp4
                                 : NumberFormat::kFloat8,
            .overlaps_experts = says(run.note, "overlaps experts")};
  run.narrow = traits.narrow;
  if (says(run.note, "FSDP")) run.work.spec.parallelism.zero = 3;
}

// NVIDIA/NeMo-Framework-Launcher: the 340B at 7c842fcd (June 2024, "actual GPU/GBS numbers used in
// pretraining") with no user buffers, so that tensor parallel messages overlap the backward alone,
// and 16 bits in gradients. The 15B at 01903770 (February 2024, when it was published; with half
// its tensor ranks) has user buffers. Squared ReLU by kernels of its own. Buckets of 50 and of
// 100 MB of gradients (apex, contrib/optimizers/distributed_fused_adam.py, bucket_cap_mb).
void set_nemotron_traits(Run& run, TrainerTraits& traits) {
  const bool is_large = says(run.model, "340B");
  traits = {.fused_activations = false,
            .fused_loss = false,
            .divides_boundary = true,
            .tensor_overlap = is_large ? TensorOverlap::kWeightGradients : TensorOverlap::kAll,
            .gradient_bytes = is_large ? 2.0 : 4.0};
  run.work.spec.bucket = 25 << 20;
}

}  // namespace

Recomputed recomputed_by(const Run& run) {
  const std::string& recompute = run.recompute;
  // torchtitan's llama3_8b.toml has mode "selective" with option "op", in December 2024 (9dec370)
  // as in June 2025 (e7c0cae, 820504e).
  if (run.group == "torchtitan" && (says(recompute, "selective") || says(recompute, "per-op"))) {
    return Recomputed::kPerOp;
  }
  return says(recompute, "full")           ? Recomputed::kAll
         : says(recompute, "selective+SP") ? Recomputed::kAttention
         : says(recompute, "selective")    ? Recomputed::kNormsAndActivations
         : says(recompute, "ffn")          ? Recomputed::kFeedForward
                                           : Recomputed::kNothing;
}

TrainerTraits set_traits(Run& run, const std::string& precision) {
  EngineSpec& spec = run.work.spec;
  const std::string& s = run.source;
  const bool several = run.work.mesh.tensor > 1;
  TrainerTraits traits;
  spec.parallelism.sequence = several;
  // Megatron-LM's buckets grow with the data parallel ranks (0fda386c, core/distributed/
  // distributed_data_parallel.py); Llama 3's program is not published and taken to do
  // the same.
  spec.bucket =
      std::max<std::int64_t>(40, run.work.mesh.data_shard * run.work.mesh.context) * 1'000'000;
  if (run.group == "Megatron Bridge") {
    set_bridge_traits(run, precision, traits);
  } else if (run.group == "AutoModel") {
    set_automodel_traits(run, traits);
  } else if (run.group == "Nemotron-4") {
    set_nemotron_traits(run, traits);
  } else if (run.group == "OLMo") {
    set_olmo_traits(run, precision, traits);
  } else if (run.group == "fms-fsdp") {
    set_fms_traits(run, traits);
  } else if (run.group == "LitGPT") {
    set_litgpt_traits(run, traits);
  } else if (says(s, "SC21")) {
    // Stage boundaries in shards (section 4.1), whole layers recomputed (3.5); the program of 2021
    // stores scores, and reduces gradients in 16 bits after the last backward.
    traits = {.flash_attention = false,
              .fused_loss = false,
              .overlaps_data = false,
              .whole_recompute = true,
              .divides_boundary = true,
              .gradient_bytes = 2};
    spec.parallelism.sequence = false;
    spec.parallelism.zero = says(run.note, "ZeRO-3") ? 3 : 0;
    // DeepSpeed gathers each of a layer's four matrices by itself, when it is needed.
    if (spec.parallelism.zero == 3) traits.messages_per_layer = 4;
  } else if (says(s, "Korthikanti")) {
    // The same a year later; inputs are gathered again during the input's gradient (4.2.2).
    traits = {.flash_attention = false,
              .fused_loss = false,
              .overlaps_data = false,
              .whole_recompute = true,
              .divides_boundary = true,
              .tensor_overlap = TensorOverlap::kWeightGradients,
              .gradient_bytes = 2};
    spec.parallelism.sequence = says(run.recompute, "SP");
    spec.parallelism.zero = 0;
  } else if (says(s, "Megatron-LM README") || says(s, "NeMo")) {
    // Both overlap tensor, data and pipeline parallel communication (--tp-comm-overlap and others);
    // NeMo's recipes reduce gradients in bfloat16. cuDNN's attention by Transformer Engine.
    traits = {.fused_loss = false,
              .divides_boundary = true,
              .tensor_overlap = TensorOverlap::kAll,
              .gradient_bytes = says(s, "NeMo") ? 2.0 : 4.0};
  } else if (says(s, "SimuMax")) {
    // By its script: no overlap of tensor parallel or data parallel communication, a fused loss,
    // context ranks with --cp-comm-type a2a.
    traits = {.overlaps_data = false, .divides_boundary = true, .exchanges_heads = true};
  } else if (says(s, "torchtitan")) {
    // FSDP2 with PyTorch's attention; runs with tensor parallelism and float8 are compiled.
    const bool compiled = says(run.note, "compile") || several;
    traits = {
        .attention_kernels = flash_attention_2(run),
        .fused = compiled,
        .fused_activations = compiled,
        .fused_loss = false,
        .tensor_overlap = says(run.note, "async TP") ? TensorOverlap::kAll : TensorOverlap::kNone,
        .gradient_traffic = 2};  // of whole layers in 16 bits, which are reduced at once
    set_fsdp2(traits);
    if (says(precision, "fp8")) set_torchao(traits, says(s, "whitefiber"));
    spec.parallelism.zero = 3;
  } else if (says(s, "llm.c") || says(s, "llmq")) {
    // cuDNN's attention, kernels of their own like this trainer's, gradients in bfloat16.
    traits.gradient_bytes = 2;
    traits.gradient_traffic = 4;
  } else if (says(s, "nanotron")) {
    // At c2528430, March 2025. trainer.py and gradient_accumulator.py: with ZeRO-0 PyTorch's
    // DistributedDataParallel, in buckets of 25 MB; with ZeRO-1 an all-reduce of all gradients
    // after the last backward.
    // optim/clip_grads.py: every gradient is multiplied, clipped or not, and updated weights are
    // copied to 16 bits by another kernel. The gradients of 16 bits are written by matmuls and then
    // added to float32; in DistributedDataParallel they are also copied into buckets and back
    // (torch, csrc/distributed/c10d/reducer.cpp).
    const bool shards = says(run.note, "ZeRO-1"), copies = !shards && run.work.mesh.data_shard > 1;
    // models/llama.py: queries, keys and values are permuted (6 passes), keys and values joined and
    // permuted (4 each); in the backward they are split (4), stacked and permuted (6 each).
    spec.bucket = shards ? Sharing::kWholeStore : 12'500'000;
    traits = {.attention_kernels = flash_attention_2(run),
              .layout_passes_forward = 14,
              .layout_passes_backward = 16,
              .batch_passes = 2,
              .fused_residuals = false,
              .fused_activations = false,
              .splits_gate = true,  // GLUActivation
              .fused_loss = false,
              .loss_passes = 26,  // tensor_parallel/functional.py, and to float32 and back
              .overlaps_data = !shards,
              .sums_whole_gradients = true,
              .gathers_by_slices = shards,  // optim/zero.py, all_gather_coalesced in distributed.py
              .tensor_overlap = TensorOverlap::kWeightGradients,
              .gradient_traffic = copies ? 20.0 : 12.0,
              .norm_traffic = 16,
              .update_traffic = 34};
    spec.parallelism.zero = shards ? 1 : 0;
  } else if (says(s, "Llama 3 Herd")) {
    // Trained before FlashAttention-3 was published, with kernels that are not named.
    // Context ranks gather keys and values (section 3.3.2).
    traits = {.attention_kernels = flash_attention_2(run),
              .fused_loss = false,
              .divides_boundary = true,
              .gathers_keys = true};
  } else if (says(s, "llm-foundry")) {
    // attn_impl is "triton" at the commit that published these rows (b2a43a147, October 2023): the
    // first FlashAttention, half as fast as the second (Dao 2023).
    traits = {.attention_kernels = flash_attention_2(run) / 2,
              .fused = false,
              .fused_activations = false,
              .whole_recompute = true,
              .gradient_traffic = 2,  // FSDP, mode DEFAULT: reduced at once, in float32
              // Weights are views; of the split in the forward the backward is a concatenation
              // (pytorch at fe03cf69, torch/distributed/fsdp/_flat_param.py). The root's backward
              // waits for its reduction (00ae0bc9, _runtime_utils.py).
              .reduced_copy = 2 + 2,
              .waits_for_ends = true};
    spec.parallelism.zero = 3;
  }
  traits.recomputed = recomputed_by(run);
  return traits;
}

}  // namespace trireme::published
