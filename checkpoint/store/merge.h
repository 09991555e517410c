#pragma once
#include <filesystem>
#include <span>
#include <vector>

#include "checkpoint/format/piece.h"

namespace trireme::checkpoint {

struct MergeInput {
  std::filesystem::path folder;  // a checkpoint
  double weight = 1;
};

// The parameters of a model in host memory: whole tensors, "model/NAME" in float32.
struct MergedWeights {
  std::vector<float> values;
  std::vector<Piece> pieces;  // of `values`
};

// Weighted mean of the parameters of checkpoints, divided by the sum of the weights (checkpoint
// averaging: Izmailov et al. 2018, arXiv:1803.05407; instead of learning rate decay: WSM, Tian et
// al. 2025, arXiv:2507.17634). Summed in float64 in the order given and rounded once. Every byte
// read is verified. Needs 4 bytes per parameter and 12 per element of the largest tensor. Throws
// CheckpointError if a checkpoint is damaged, MismatchError unless all have the same parameters.
MergedWeights merge_weights(std::span<const MergeInput> inputs);

}  // namespace trireme::checkpoint
