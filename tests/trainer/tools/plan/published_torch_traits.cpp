#include "tests/trainer/tools/plan/published_torch_traits.h"

#include <algorithm>

#include "tests/trainer/tools/plan/other_ops.h"

namespace trireme::published {
namespace {

// Passes over logits with 2 bytes each by OLMo-core's loss (nn/transformer/model.py,
// train/trainer.py, nn/functional/cross_entropy_loss.py). At 8c03ca8a to 41400c46 logits are cast
// to float32 (3) and all but the last token's copied (4); the gradient is copied into zeros (6) and
// cast back (3). Between these are the fused loss (6) or, by PyTorch, log-softmax (4), logarithms
// of sums for the z-loss (12) and the gradients of both (8, 12) and their sum (6). At e27ba745 the
// loss is compiled and casts by itself: copies (2, 3), largest and sum (2), gradient (2).
double loss_passes_of_olmo(const Run& run) {
  if (says(run.note, "loss compiled")) return 9;
  return 3 + 4 + (says(run.note, "loss by PyTorch") ? 42 : 6) + 6 + 3;
}

}  // namespace

// On Hopper relative to cuDNN's (Shah et al. 2024, figures 5 and 6): 0.70 with heads of 64, 0.62
// with heads of 128.
double flash_attention_2(const Run& run) {
  const double width = static_cast<double>(run.work.spec.model.head_dim);
  return 0.70 - 0.08 * (std::clamp(width, 64.0, 128.0) - 64) / 64;
}

// What FSDP2 does on the stream that computes: weights are copied out of the buffer that they are
// gathered in (split_with_sizes_copy) and gradients into the float32 buffer that they are reduced
// from (chunk_cat); pytorch at 010ae4a8, torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py.
// What belongs to no layer is gathered and reduced by the root, where nothing overlaps it.
void set_fsdp2(TrainerTraits& traits) {
  traits.copies_gathered = true;
  traits.reduced_copy = 2 + 4;
  traits.waits_for_ends = true;
}

// torchao's tensorwise scaling, compiled: a kernel for the largest magnitude and one that writes
// both layouts; weights the same but for one layout each pass (pytorch/ao at 05980129,
// torchao/testing/training/roofline_utils.py, by the code that the compiler generates). Weights
// that are gathered in 8 bits are only transposed for the backward (067a6320, float8_ops.py,
// preprocess_addmm).
void set_torchao(TrainerTraits& traits, bool gathers_narrow) {
  traits.quantizing_reads = 2;
  traits.weight_traffic_forward = gathers_narrow ? 0 : 2 + 2 + 1;
  traits.weight_traffic_backward = gathers_narrow ? 2 : 2 + 1;
  traits.gathers_narrow = gathers_narrow;
}

// FSDP2, compiled, or with Transformer Engine's norms and activations; the loss is PyTorch's.
// Experts with hidden exchanges are not among its options (examples/llm_benchmark).
void set_automodel_traits(Run& run, TrainerTraits& traits) {
  const bool has_experts = run.work.spec.model.num_experts > 0;
  traits = {.attention_kernels = has_experts ? 1 : flash_attention_2(run),
            .fused_loss = false,
            .whole_recompute = true,
            .gradient_traffic = 2};
  set_fsdp2(traits);
  run.work.spec.parallelism.zero = 3;
}

// OLMo-core: FSDP2 of compiled blocks, PyTorch's attention.
void set_olmo_traits(Run& run, const std::string& precision, TrainerTraits& traits) {
  traits = {.attention_kernels = flash_attention_2(run),
            .fused_loss = false,
            .loss_passes = loss_passes_of_olmo(run),
            .gradient_traffic = 2};
  set_fsdp2(traits);
  if (says(precision, "fp8")) set_torchao(traits, true);
  run.work.spec.parallelism.zero = 3;
}

// fms-fsdp at 5e522b4 with foundation-model-stack at 006bd7ed and PyTorch's FSDP of flat parameters
// (fe03cf69, torch/distributed/fsdp). Not compiled, but for rows that say so: then all but the loss
// is, block by block.
void set_fms_traits(Run& run, TrainerTraits& traits) {
  const ModelConfig& model = run.work.spec.model;
  const bool is_compiled = says(run.note, "torch.compile");
  // fms/modules/attention.py: keys and values are copied to as many heads as queries have, and
  // the copies' gradients summed.
  const bool expands = model.num_key_value_heads < model.num_attention_heads;
  const double copied =
      expands
          ? 2 * (1 + to_double(model.num_key_value_heads) / to_double(model.num_attention_heads))
          : 0;
  // Gradients of the input of three matmuls, and of two, are added by kernels of their own.
  const double sums = is_compiled ? 0 : 3 * 3;
  traits = {
      // on the A100 the planner's attention is FlashAttention-2's
      .attention_kernels = says(run.gpu, "A100") ? 1 : flash_attention_2(run),
      .layout_passes_forward = copied,
      .layout_passes_backward = copied + sums,
      .fused = is_compiled,
      // fms/modules/layernorm.py, by a dozen kernels in float32, and their backward; positions.py:
      // products with a matrix of 2 x 2 for each pair, in float32, and their sums
      .unfused = {.norm_forward = 18, .norm_backward = 49.0 / 4, .rope = 9},
      .fused_activations = is_compiled,
      .fused_loss = false,
      // log-softmax reads logits three times and writes as many; of the loss's gradient zeros are
      // written, summed, and read again with log-softmax's results
      .loss_passes = 4 + 1 + 4,
      .sums_replicas_at_once = true,  // on a stream of its own (_runtime_utils.py)
      .gradient_bytes = 2,
      .gradient_traffic = 2,
      // norm, clipping, and from the 16 bits that they were reduced in to float32
      .norm_traffic = 4 + 8 + 6,
      // torch.optim.AdamW by lists of tensors (_multi_tensor_adamw), and two casts to 16 bits, one
      // for each time that weights are gathered
      .update_traffic = 80 + 2 * 6,
      // joined from views (_flat_param.py) and divided before they are reduced (_runtime_utils.py)
      .reduced_copy = 4 + 4,
      .waits_for_ends = true};
  run.work.spec.parallelism.zero = 3;
}

// LitGPT with PyTorch's FSDP of flat parameters, everything in 16 bits, no clipping. Rows without
// torch.compile at 101e31d2, those with it at 24d5eba1 (litgpt/model.py, litgpt/utils.py,
// extensions/thunder/pretrain.py). What is timed begins when a batch is there and ends with the
// loss on the host. All rows are of A100s, whose attention is FlashAttention-2's in the planner.
void set_litgpt_traits(Run& run, TrainerTraits& traits) {
  const ModelConfig& model = run.work.spec.model;
  const bool is_compiled = says(run.note, "torch.compile");
  const double keys = to_double(model.num_key_value_heads) / to_double(model.num_attention_heads);
  // Copies around PyTorch's attention, in passes over the queries: queries, keys and values by
  // heads, all with as many, and the result by tokens. Compiled, the rotation makes the first.
  const double to_heads = 2 + 2 * (1 + keys), to_tokens = 2;
  const double joined = 2 * (1 + 2 * keys);  // gradients of queries, keys and values, by heads
  // Six kernels rotate queries, and keys of as many heads: slices, negation, joining, two products,
  // their sum, and another joining. Their backward adds zeros that slices are copied into.
  const double rotated = 2 * 12, rotated_backward = 2 * 22, by_this_trainer = 2 * (1 + keys);
  const double sums = 3;  // of the gradients of the MLP's two inputs
  run.is_python = false;  // nothing between steps is timed
  run.work.spec.parallelism.zero = 3;
  traits = {
      .fused = is_compiled,
      .unfused = {.norm_forward = 18, .norm_backward = 53.0 / 4, .rope = rotated / by_this_trainer},
      .fused_activations = is_compiled,
      .fused_loss = false,
      // as fms-fsdp, but in float32, which logits are cast to and gradients from (Lightning
      // Fabric, convert_output)
      .loss_passes = 3 + 2 * 9 + 3,
      .gradient_bytes = 2,
      .gradient_traffic = 2,
      .norm_traffic = 0,
      .update_traffic = 7 * 2,  // fused AdamW, all of it in 16 bits
      .reduced_copy = 4 + 4,    // as fms-fsdp
      .waits_for_ends = true};
  if (is_compiled) {
    traits.loss_passes += 4;  // gradients of chunks of 128 tokens are joined
    traits.layout_passes_forward = to_heads + 2 - by_this_trainer + to_tokens;
    traits.layout_passes_backward = to_heads + 2 - by_this_trainer + to_tokens + 1;
  } else {
    traits.layout_passes_forward = to_heads + to_tokens;
    traits.layout_passes_backward =
        to_tokens + 2 * (1 + keys) + 2 * joined + sums + rotated_backward - rotated;
  }
}

}  // namespace trireme::published
