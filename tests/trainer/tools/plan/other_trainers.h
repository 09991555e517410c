#pragma once
#include "trainer/engine/step_ops.h"
#include "trainer/tools/plan/estimate/workload.h"

namespace trireme::published {

// Recomputation in the backward. kNormsAndActivations is mode "selective" of this trainer,
// kAttention the selective recomputation of Korthikanti et al. 2022, kFeedForward all of the MLP
// but its last matmul, and norms. kPerOp is torchtitan's selective checkpointing per op: results of
// attention and of the first and then every second matmul are saved, all others computed again.
enum class Recomputed : std::uint8_t {
  kNothing,
  kNormsAndActivations,
  kAttention,
  kFeedForward,
  kPerOp,
  kAll
};

// Overlap of tensor-parallel communication: none, with the weight-gradient matmuls, or with all
// matmuls that produce or consume it (asynchronous TP; only the first chunk is exposed).
enum class TensorOverlap : std::uint8_t { kNone, kWeightGradients, kAll };

// Memory accesses of norms and rotations where every step of their formulas is a kernel.
struct UnfusedKernels {
  double norm_forward = 6;     // passes over the input with 2 bytes per element, no residual added
  double norm_backward = 2.5;  // over the accesses of this trainer's kernel
  double rope = 4;             // the same
};

// Implementation choices of a training program that determine its step time. The defaults are
// those of this trainer, but for a head that is not in chunks. All others are taken from the
// programs' sources, none is fitted.
struct TrainerTraits {
  Recomputed recomputed = Recomputed::kNothing;
  bool flash_attention = true;   // false: attention scores are stored in memory
  double attention_kernels = 1;  // speed relative to cuDNN's attention
  // Passes over the queries by kernels that only change layouts before and after attention; with
  // keys and values as wide as queries.
  double layout_passes_forward = 0, layout_passes_backward = 0;
  double batch_passes = 0;  // more of them where a micro-batch has several sequences
  bool fused = true;        // false: one kernel per step of a norm, rotation or embedding
  UnfusedKernels unfused = {};
  bool fused_residuals = true;    // false: kernels of their own add residuals and their gradients
  bool fused_activations = true;  // false: the same of activations
  bool splits_gate = false;       // unfused, of one matmul's result whose halves are joined again
  bool fused_loss = true;         // false: the same for the loss, with float32 logits
  double loss_passes = 22;        // of such a loss, with 2 bytes per logit
  double messages_per_layer = 1;  // all-gathers per layer with ZeRO-3
  bool overlaps_data = true;      // gradient reduction overlaps the last backward
  // Shards of blocks are summed over replicas as soon as they are reduced, of each micro-batch.
  bool sums_replicas_at_once = false;
  bool sums_whole_gradients = false;  // all-reduces gradients, although the optimizer is sharded
  // The host copies slices of all parameters, one for each data parallel rank, after the update.
  bool gathers_by_slices = false;
  bool whole_recompute =
      false;  // full recomputation includes the last matmul, which the backward does not need
  bool divides_boundary = false;  // tensor ranks send shards of the stage boundary activations
  TensorOverlap tensor_overlap = TensorOverlap::kNone;
  bool exchanges_heads = false;  // context ranks: all-to-all between tokens and heads (Ulysses)
  bool gathers_keys = false;     // context ranks: all keys and values at once, not around a ring
  double gradient_bytes = 4;     // bytes per element of the gradient reduction
  // Bytes read and written per element of a weight's gradient and micro-batch: float32 that the
  // matmul adds to.
  double gradient_traffic = 8;
  // Bytes read and written per element of a rank's float32 gradients and step, by which their norm
  // is found and they are cleared.
  double norm_traffic = 8;
  // The same of the optimizer's update; this trainer's AdamW writes weights in 16 bits in its pass.
  double update_traffic = 30;
  // Where kernels of their own quantize the blocks' operands for both products that they are in:
  // how often these read them, 2 with a pass for the largest magnitude. 0: the kernels before do
  // it.
  double quantizing_reads = 0;
  // Bytes read and written per weight of a block and micro-batch to quantize or transpose it.
  double weight_traffic_forward = 0, weight_traffic_backward = 0;
  bool gathers_narrow = false;  // ZeRO-3 gathers the blocks' weights as they are quantized
  // ZeRO-3 in buffers of a layer: weights are copied out of theirs, and bytes read and written per
  // gradient to fill the other.
  bool copies_gathered = false;
  double reduced_copy = 0;
  // ZeRO-3: the embedding and the head are gathered before the first block, and their gradients
  // reduced after the last backward, of each micro-batch.
  bool waits_for_ends = false;
  NumberFormat narrow = NumberFormat::kFloat8;  // of operands with a byte per element or less
  bool overlaps_experts = false;  // exchanges of experts' rows overlap other computation
};

// The ops and messages of such a program, from those that this trainer's layers issue for the same
// model. The sequences may be divided over a context axis, which this trainer has not.
StepOps ops_of(const Workload& work, const TrainerTraits& traits);

}  // namespace trireme::published
