#pragma once
#include <optional>
#include <string>

#include "model/layers/linear.h"
#include "model/layers/micro_batch.h"
#include "model/layers/recompute.h"
#include "model/layers/region.h"
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

// Key-value cache for generation: each tensor is [capacity, kv_heads width].
struct KeyValueCache {
  Tensor keys, values;
};

struct AttentionSpec {
  std::int64_t hidden = 0;
  ops::Heads heads;  // of the whole model
  bool qkv_bias = false;
  bool output_bias = false;
  bool qk_norm = false;
  double norm_epsilon = 1e-6;
  double init_scale = 0.02;
  double output_init_scale = 0.02;
  MatmulPrecision precision = MatmulPrecision::kNative;
};

// Self-attention with grouped queries, and optional rotary embeddings and QK-norm. Queries, keys
// and values are one matrix product; heads are sharded over the region.
class Attention {
 public:
  struct Saved {
    Linear::Saved in, out;
    Tensor before_norm, inv_rms;  // with QK-norm: its input
    Tensor qkv;                   // after QK-norm and rotary embedding
    Tensor mixed, lse;
  };
  // `rope_table` [max_position, width] outlives the layer; empty: no rotary embedding.
  Attention(ParamStore& params, const std::string& name, const AttentionSpec& spec, Region& region,
            AttentionCore& core, const Tensor& rope_table);

  // With selective recomputation the region's input activations are not saved.
  Tensor forward(ExecContext& ctx, Tensor x, const MicroBatch& batch, Recompute recompute,
                 Saved& saved) const;
  // Recomputes what a selective forward did not save: the input.
  void restore_dropped(ExecContext& ctx, Tensor x, Saved& saved) const;
  // Returns dx, in scratch.
  Tensor backward(ExecContext& ctx, Tensor dy, const MicroBatch& batch, const Saved& saved) const;
  // Decodes the next tokens of one sequence; the first is at row `first` of the cache.
  Tensor decode(ExecContext& ctx, Tensor x, Tensor positions, std::int64_t first,
                const KeyValueCache& cache) const;
  const ops::Heads& heads() const { return heads_; }  // of this rank

 private:
  Tensor project(ExecContext& ctx, Tensor x, Tensor positions, Saved& saved) const;
  void mix(ExecContext& ctx, const MicroBatch& batch, Saved& saved) const;
  Tensor join(ExecContext& ctx, Tensor mixed, Saved& saved) const;
  ops::AttentionShape shape(const MicroBatch& batch) const;

  Region& region_;
  AttentionCore& core_;
  const Tensor& rope_table_;
  ops::Heads heads_;
  double norm_epsilon_;
  Linear in_;
  Weight *query_gain_ = nullptr, *key_gain_ = nullptr;
  Linear out_;
};

}  // namespace trireme
