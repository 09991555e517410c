#pragma once
#include <cstdint>

#include "model/tensor/tensor.h"

namespace trireme {

// Where the tokens of a micro-batch stand. Tokens are [batch seq], sequence by sequence.
struct Sequence {
  std::int64_t batch = 1;
  std::int64_t seq = 1;
  Tensor positions;       // [batch seq] I32: the token's position in its document
  Tensor document_start;  // [batch seq] I32: where its document begins in its sequence
  bool documents = true;  // false: every sequence is one document, known before the step
  std::int64_t tokens() const { return batch * seq; }
};

// What a layer's backward finds kept and what it computes again: `kSelective`
// drops the outputs of norms and activation functions, which are cheap to redo;
// `kFull` drops everything but a block's input, and what a layer then computes again it keeps
// as it is for the backward that follows.
enum class Recompute : std::uint8_t { kNone, kSelective, kFull };

}  // namespace trireme
