#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/stage/model_config.h"
#include "parallel/mesh/mesh.h"
#include "trainer/config/run_config.h"
#include "trainer/tools/plan/device_profile.h"

namespace trireme {

// What is computed again in the backward. kNormsAndActivations is this program's "selective",
// kAttention that of Korthikanti et al. 2022.
enum class Recomputed : std::uint8_t { kNothing, kNormsAndActivations, kAttention, kAll };

// Which messages of the tensor axis are hidden: none, those that a weight gradient's product can
// run beside, or all but their first chunk, behind the products that make or read them.
enum class TensorOverlap : std::uint8_t { kNone, kWeightGradients, kAll };

// What tells one training program from another in time; the defaults are this one's. Facts, not
// fitted: each can be looked up in the program.
struct Habits {
  bool flash_attention = true;  // false: scores go through memory
  // What fused attention reaches of the device's best: FlashAttention-2 on Hopper 0.57, as
  // FlashAttention-3 is 1.5 to 2 times as fast (Shah et al. 2024).
  double attention_kernels = 1;
  bool fused = true;              // false: norms and activations are several passes
  bool fused_loss = true;         // false: so is the loss, over logits in float32
  double messages_per_layer = 1;  // in which ZeRO-3 gathers a layer
  bool overlaps_data = true;      // gradients are summed during the last backward
  bool whole_recompute = false;   // true: also the last product, which the backward does not read
  bool divides_boundary = false;  // each tensor rank sends its part of what stages exchange
  TensorOverlap tensor_overlap = TensorOverlap::kNone;
  double gradient_bytes = 4;  // an element when it is summed over data ranks
  bool operator==(const Habits&) const = default;
};

// A training step, of this program or another.
struct Workload {
  ModelConfig model;
  Numbers numbers = Numbers::kHalf;  // of the blocks' products; the head's are no less than kHalf
  Recomputed recomputed = Recomputed::kNothing;
  std::int64_t seq_len = 0;
  std::int64_t micro_batch = 1;    // sequences
  std::int64_t micro_batches = 1;  // of a data rank in a step
  MeshShape mesh = {};             // without a 0
  std::string schedule = "1F1B";
  int virtual_stages = 1;
  std::vector<std::int64_t> layers_per_stage = {};  // empty: balanced
  bool sequence = false;                            // sequence parallelism
  int zero = 1;
  double bucket_bytes = 25 << 20;
  Habits habits = {};

  std::int64_t ranks() const;
  std::int64_t tokens() const;  // in a step, over all data ranks
};

// What the trainer would run. `config` is for_ranks: its data degrees are settled.
Workload workload_of(const RunConfig& config);

}  // namespace trireme
