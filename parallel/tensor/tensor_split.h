#pragma once
#include "model/stage/model_config.h"

namespace trireme {

// Number of `ranks` that hold each key-value head: that many adjacent ranks sum its gradients. Of
// ranks and key-value heads, one number divides the other.
int key_value_replicas(const ModelConfig& model, int ranks);

}  // namespace trireme
