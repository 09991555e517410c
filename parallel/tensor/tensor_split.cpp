#include "parallel/tensor/tensor_split.h"

#include "model/params/cut.h"

namespace trireme {

int key_value_replicas(const ModelConfig& model, int ranks) {
  return cut_pieces(0, model.num_key_value_heads, {0, ranks}).replica.count;
}

}  // namespace trireme
