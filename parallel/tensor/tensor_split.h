#pragma once
#include "model/stage/model_config.h"

namespace trireme {

// How many of `ranks` hold each key-value head: that many neighbours sum its gradients.
// The ranks divide the key-value heads or the other way round.
int key_value_replicas(const ModelConfig& model, int ranks);

}  // namespace trireme
