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

  virtual void forward(ExecContext& ctx, Tensor out, Tensor lse, Tensor qkv, Tensor document_start,
                       const ops::AttentionShape& shape) {
    ops::attention(ctx.stream, ctx.scratch, out, lse, qkv, document_start, shape);
  }
  virtual void backward(ExecContext& ctx, const ops::AttentionBackward& how,
                        const ops::AttentionShape& shape) {
    ops::attention_backward(ctx.stream, ctx.scratch, how, shape);
  }
};

}  // namespace trireme
