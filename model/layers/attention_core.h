#pragma once
#include "model/ops/attention.h"

namespace trireme {

// How queries meet keys and values: the seam for context parallelism, where a
// sequence's tokens are shared out. This class is the core of one: all tokens
// of the sequence are here.
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
