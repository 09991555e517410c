#pragma once
#include "model/ops/attention.h"

namespace trireme {

// The product of queries with keys and values: the extension point for context parallelism, where
// the tokens of a sequence are sharded. This base class handles unsharded sequences.
class AttentionCore {
 public:
  AttentionCore() = default;
  AttentionCore(const AttentionCore&) = delete;
  AttentionCore& operator=(const AttentionCore&) = delete;
  virtual ~AttentionCore() = default;

  virtual void forward(Run& run, Tensor out, Tensor lse, Tensor qkv, Tensor document_start,
                       const ops::AttentionShape& shape) {
    ops::attention(run.stream, run.scratch, out, lse, qkv, document_start, shape);
  }
  virtual void backward(Run& run, const ops::AttentionBackward& how,
                        const ops::AttentionShape& shape) {
    ops::attention_backward(run.stream, run.scratch, how, shape);
  }
};

}  // namespace trireme
