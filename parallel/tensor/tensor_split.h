#pragma once
#include <cstdint>

#include "model/stage/model_config.h"

namespace trireme {

// Whether `ranks` can share a model's matrices: they divide its attention heads and
// the MLP's width, and its key-value heads or the other way round. Throws
// ConfigError that names the keys, their values and the nearest possible ones.
void check_tensor_split(const ModelConfig& model, std::int64_t ranks);

// Whether `ranks` can share the tokens of a micro-batch of local_batch_size
// sequences. Throws ConfigError likewise.
void check_sequence_split(std::int64_t local_batch_size, std::int64_t seq_len, std::int64_t ranks);

// How many of `ranks` hold each key-value head: that many neighbours sum its gradients.
int key_value_replicas(const ModelConfig& model, int ranks);

}  // namespace trireme
