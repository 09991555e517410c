#pragma once
#include <cstdint>

#include "model/tensor/tensor.h"

namespace trireme {

// Positions of the tokens of a micro-batch. Tokens are [batch seq], sequence by sequence.
struct Sequence {
  std::int64_t batch = 1;
  std::int64_t seq = 1;
  Tensor positions;       // [batch seq] I32: position of the token in its document
  Tensor document_start;  // [batch seq] I32: start of its document in its sequence
  bool documents = true;  // false: every sequence is one document
  std::int64_t tokens() const { return batch * seq; }
};

// Activation recomputation: `kSelective` drops outputs of norms and activation functions, which are
// cheap to recompute; `kFull` saves only a block's input, and the recomputing forward saves
// everything for the backward that follows.
enum class Recompute : std::uint8_t { kNone, kSelective, kFull };

}  // namespace trireme
