#pragma once
#include "trainer/engine/step_ops.h"
#include "trainer/tools/plan/workload.h"

namespace trireme::published {

// Recomputation in the backward. kNormsAndActivations is mode "selective" of this trainer,
// kAttention the selective recomputation of Korthikanti et al. 2022.
enum class Recomputed : std::uint8_t { kNothing, kNormsAndActivations, kAttention, kAll };

// Overlap of tensor-parallel communication: none, with the weight-gradient matmuls, or with all
// matmuls that produce or consume it (asynchronous TP; only the first chunk is exposed).
enum class TensorOverlap : std::uint8_t { kNone, kWeightGradients, kAll };

// Implementation choices of a training program that determine its step time. The defaults are
// those of this trainer, but for a head that is not in chunks. All others are taken from the
// programs' sources, none is fitted.
struct TrainerTraits {
  Recomputed recomputed = Recomputed::kNothing;
  bool flash_attention = true;  // false: attention scores are stored in memory
  // Speed relative to the fastest fused attention of the device: 0.57 for FlashAttention-2 on
  // Hopper, as FlashAttention-3 is 1.5 to 2 times as fast (Shah et al. 2024).
  double attention_kernels = 1;
  bool fused = true;              // false: one kernel per step of a norm or activation
  bool fused_loss = true;         // false: the same for the loss, with float32 logits
  double messages_per_layer = 1;  // all-gathers per layer with ZeRO-3
  bool overlaps_data = true;      // gradient reduction overlaps the last backward
  bool whole_recompute =
      false;  // full recomputation includes the last matmul, which the backward does not need
  bool divides_boundary = false;  // tensor ranks send shards of the stage boundary activations
  TensorOverlap tensor_overlap = TensorOverlap::kNone;
  double gradient_bytes = 4;  // bytes per element of the gradient reduction
};

// The ops and messages of such a program, from those that this trainer's layers issue for the same
// model. The sequences may be divided over a context axis, which this trainer has not.
StepOps ops_of(const Workload& work, const TrainerTraits& traits);

}  // namespace trireme::published
