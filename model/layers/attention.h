#pragma once
#include <optional>
#include <string>

#include "model/layers/linear.h"
#include "model/layers/micro_batch.h"
#include "model/layers/recompute.h"
#include "model/layers/region.h"
#include "model/ops/attention.h"
#include "model/ops/projection_norm.h"

namespace trireme {

// The product of queries with keys and values: the extension point for context parallelism, where
// the tokens of a sequence are sharded (MicroBatch::shard). This base class handles unsharded
// sequences. `shape` is of this rank's tokens.
class AttentionCore {
 public:
  AttentionCore() = default;
  AttentionCore(const AttentionCore&) = delete;
  AttentionCore& operator=(const AttentionCore&) = delete;
  virtual ~AttentionCore() = default;

  virtual void forward(ExecContext& ctx, Tensor out, Tensor lse, Tensor qkv,
                       const MicroBatch& batch, const ops::AttentionShape& shape) {
    ops::attention(ctx.stream, ctx.scratch, out, lse, qkv, batch.first_seen(shape.window > 0),
                   shape);
  }
  virtual void backward(ExecContext& ctx, const ops::AttentionBackward& how, const MicroBatch&,
                        const ops::AttentionShape& shape) {
    ops::attention_backward(ctx.stream, ctx.scratch, how, shape);
  }
};

// Key-value cache for generation: each tensor is [capacity, kv_heads width], a ring in layers with
// a sliding window.
struct KeyValueCache {
  Tensor keys, values;
};

// RMSNorm of queries and keys: of every head (Qwen3), or of all heads of the projection together
// (OLMo 2), whose mean square crosses tensor ranks.
enum class QkNorm : std::uint8_t { kNone, kHead, kProjection };

struct AttentionSpec {
  std::int64_t hidden = 0;
  ops::Heads heads;               // of the whole model
  double scale = 1;               // of the scores, usually 1 / sqrt(head width)
  double soft_cap = 0;            // of the scores; 0: none
  std::int64_t window = 0;        // tokens that a query sees, itself included; 0: all before it
  bool rope_interleaved = false;  // rotates pairs of adjacent elements
  bool qkv_bias = false;
  bool output_bias = false;
  bool sinks = false;  // a learned logit of each head (ops/attention_sink.h)
  QkNorm qk_norm = QkNorm::kNone;
  double norm_epsilon = 1e-6;
  double norm_gain_offset = 0;
  double init_scale = 0.02;
  double output_init_scale = 0.02;
  MatmulPrecision precision = MatmulPrecision::kNative;
  ops::Dropout dropout = {};  // of the probabilities; without words
};

// Self-attention with grouped queries, and optional rotary embeddings, QK-norm and sliding window.
// Queries, keys and values are one matrix product; heads are sharded over the region.
class Attention {
 public:
  struct Saved {
    Linear::Saved in, out;
    Tensor before_norm, norms;  // with QK-norm: its input and statistics
    Tensor qkv;                 // after QK-norm and rotary embedding
    Tensor mixed, lse;
  };
  // `rope_table` [max_position, rotated width] outlives the layer; empty: no rotary embedding.
  Attention(ParamStore& params, const std::string& name, const AttentionSpec& spec, Region& region,
            AttentionCore& core, const Tensor& rope_table);

  // Linear's, of its projections.
  void take_codes(Arena& arena);
  void update_codes(ExecContext& ctx) const;

  // Returns y in `into`, or residual.sum. If the backward recomputes norms, the region's input
  // activations are not saved.
  Tensor forward(ExecContext& ctx, Arena& into, const MeasuredTensor& x, const MicroBatch& batch,
                 Recompute recompute, Saved& saved, const Residual& residual = {}) const;
  // Whether forward quantizes x itself, not what a region makes of it.
  bool quantizes_input() const { return in_.is_float8() && !region_.splits_tokens(); }
  // Recomputes the input, which such a forward did not save.
  void restore_dropped(ExecContext& ctx, Tensor x, Saved& saved) const;
  // Returns dx, in scratch.
  Tensor backward(ExecContext& ctx, Tensor dy, const MicroBatch& batch, const Saved& saved) const;
  // Decodes the next tokens of one sequence; the first is at row `first` of the cache.
  Tensor decode(ExecContext& ctx, Tensor x, Tensor positions, std::int64_t first,
                const KeyValueCache& cache) const;
  // For sequences of up to `capacity` tokens, of which one call decodes up to `at_once`.
  KeyValueCache make_cache(Arena& arena, DType dtype, std::int64_t capacity,
                           std::int64_t at_once) const;

 private:
  Tensor project(ExecContext& ctx, const MeasuredTensor& x, Tensor positions, Saved& saved) const;
  Tensor normalize(ExecContext& ctx, Tensor qkv, Saved& saved) const;
  void normalize_backward(ExecContext& ctx, Tensor dqkv, const Saved& saved) const;
  void rotate(ExecContext& ctx, Tensor qkv, Tensor positions, bool backward) const;
  void mix(ExecContext& ctx, const MicroBatch& batch, Saved& saved) const;
  Tensor join(ExecContext& ctx, Arena& into, Tensor mixed, Saved& saved,
              const Residual& residual) const;
  ops::AttentionShape shape(const MicroBatch& batch) const;

  Region& region_;
  AttentionCore& core_;
  const Tensor& rope_table_;
  const AttentionSpec spec_;
  const ops::Heads heads_;  // of this rank
  const double key_share_;  // one over the ranks with the same key heads
  Linear in_;
  Weight* sinks_ = nullptr;
  Weight *query_gain_ = nullptr, *key_gain_ = nullptr;
  Linear out_;
};

}  // namespace trireme
