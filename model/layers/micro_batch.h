#pragma once
#include <cstdint>

#include "model/tensor/tensor.h"

namespace trireme {

// What routers report of a micro-batch, if it is given: the forward of each layer with experts
// writes its row.
struct RouterSink {
  Tensor losses = {};  // [layers, ops::kRouterSums] F64: ops::router_losses
  Tensor counts = {};  // [layers, experts] F32: each expert's tokens are added
  explicit operator bool() const { return static_cast<bool>(losses); }
};

// The inputs of a micro-batch on the device, sequence by sequence. Views: the memory must stay
// valid until its backward.
struct MicroBatch {
  std::int64_t sequences = 1, seq_len = 1;
  Tensor ids = {};             // [tokens] I32; used on the first stage
  Tensor targets = {};         // [tokens] I32; used on the last stage; -1: no target
  Tensor positions = {};       // [tokens] I32: position of the token in its document
  Tensor document_start = {};  // [tokens] I32: start of its document in its sequence
  bool documents = true;       // false: every sequence is one document
  // [tokens] I32: first token that a layer with a sliding window sees; made by the stage.
  Tensor window_start = {};
  // [tokens] I32: random words of the tokens for dropout; empty: nothing is dropped.
  Tensor dropout_words = {};
  Tensor scale = {};         // [1] F64, empty: 1; scale of the tokens' losses for their gradients
  Tensor router_scale = {};  // the same of routers' losses
  RouterSink routers = {};
  std::int64_t tokens() const { return sequences * seq_len; }
};

}  // namespace trireme
