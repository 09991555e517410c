#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/stage/model_config.h"
#include "parallel/mesh/mesh.h"
#include "trainer/config/run_config.h"
#include "trainer/tools/plan/device_profile.h"

namespace trireme {

// Recomputation in the backward. kNormsAndActivations is mode "selective" of this trainer,
// kAttention the selective recomputation of Korthikanti et al. 2022.
enum class Recomputed : std::uint8_t { kNothing, kNormsAndActivations, kAttention, kAll };

// Overlap of tensor-parallel communication: none, with the weight-gradient matmuls, or with all
// matmuls that produce or consume it (asynchronous TP; only the first chunk is exposed).
enum class TensorOverlap : std::uint8_t { kNone, kWeightGradients, kAll };

// Implementation choices of a training program that determine its step time. The defaults describe
// this trainer; other values describe the programs whose published step times validate the cost
// model (PUBLISHED.md). All are taken from the programs' sources, none is fitted.
struct TrainerTraits {
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
  bool operator==(const TrainerTraits&) const = default;
};

// Parameters of a training step, of this trainer or another program.
struct Workload {
  ModelConfig model;
  NumberFormat numbers = NumberFormat::kHalf;  // of the blocks; the head uses at least kHalf
  Recomputed recomputed = Recomputed::kNothing;
  std::int64_t seq_len = 0;
  std::int64_t micro_batch = 1;    // sequences
  std::int64_t micro_batches = 1;  // per data-parallel rank and step
  MeshShape mesh = {};             // all degrees set
  std::string schedule = "1F1B";
  int virtual_stages = 1;
  std::vector<std::int64_t> layers_per_stage = {};  // empty: balanced
  bool sequence = false;                            // sequence parallelism
  int zero = 1;
  double bucket_bytes = 25 << 20;
  TrainerTraits traits = {};

  std::int64_t ranks() const;
  std::int64_t tokens() const;  // per step, over all data-parallel ranks
};

// The workload of a config whose data-parallel degrees are set (for_ranks).
Workload workload_of(const RunConfig& config);

}  // namespace trireme
