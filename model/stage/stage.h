#pragma once
#include <deque>
#include <optional>
#include <vector>

#include "model/device/stream.h"
#include "model/layers/embedding.h"
#include "model/layers/head.h"
#include "model/stage/block.h"
#include "model/stage/block_memory.h"

namespace trireme {

// Callbacks around the use of a unit (ParamStore::Unit): the extension point for data parallelism
// and ZeRO, which all-gather weights before use and reduce gradients afterwards. This base class
// does nothing.
class UnitHooks {
 public:
  UnitHooks() = default;
  UnitHooks(const UnitHooks&) = delete;
  UnitHooks& operator=(const UnitHooks&) = delete;
  virtual ~UnitHooks() = default;

  // The unit's values are about to be read by a forward.
  virtual void before_forward(Stream&, int /*unit*/) {}
  // The unit's values are about to be read by a backward.
  virtual void before_backward(Stream&, int /*unit*/) {}
  // Called before and after a micro-batch accumulates into the unit's gradients.
  virtual void before_gradients(Stream&, int /*unit*/) {}
  virtual void after_gradients(Stream&, int /*unit*/) {}
};

// Consecutive blocks, with the embedding on the first stage and the head on the last. The unit of
// pipeline parallelism.
class Stage {
 public:
  struct Spec {
    std::int64_t first_block = 0;
    std::int64_t end_block = 0;
    std::int64_t max_positions = 0;  // longest sequence supported
    std::int64_t vocab_tile = 1;     // the vocabulary is padded in memory to a multiple of this
    Recompute recompute = Recompute::kNone;
    // Sum a tied table's gradients from the head and from the embedding separately over the
    // micro-batches of a step, as when the two are on different ranks.
    bool tied_gradient_apart = false;
    MatmulPrecision precision = MatmulPrecision::kNative;  // precision of the blocks' linear layers
    DropoutRates dropout = {};                             // for micro-batches with dropout_words
    double z_loss = 0;  // weight of the squared log-sum-exp of the logits in the training loss
  };
  struct Saved {
    MicroBatch batch;
    std::vector<Block::Saved> blocks;
    Tensor hidden;  // input of the head
    Head::Saved head;
  };

  // Declares its parameters in `params`; all arguments outlive the stage.
  Stage(ParamStore& params, const ModelConfig& config, const Spec& spec, Seams seams,
        UnitHooks& hooks);

  // Allocates constant tables in `weights`, and fills them unless `planning`.
  void take_tables(Arena& weights, DType compute, bool planning);
  // Memory in `weights` for float8 codes of the blocks' weights, which are then made in the first
  // forward after ParamStore::expect_codes().
  void take_codes(Arena& weights);
  // Also allocates the parameters, for a stage that is the only user of its store.
  void allocate(ParamStore::Places places, DType compute, bool planning);

  // [own tokens, hidden]: the shape of activations and gradients between stages for a micro-batch
  // of `tokens`.
  Shape boundary(std::int64_t tokens) const;

  // `x` boundary(tokens) is from the previous stage, empty on the first. Returns the output for the
  // next stage, boundary(tokens); on the last stage the loss of every token [tokens], in the
  // accumulator dtype. Allocated in ctx.saved.
  Tensor forward(ExecContext& ctx, const MicroBatch& batch, Tensor x, Saved& saved) const;
  // Returns the gradient for the previous stage, in `dx` if given, otherwise in ctx.saved; empty on
  // the first stage.
  Tensor backward(ExecContext& ctx, Tensor dy, Saved& saved, Tensor dx = {}) const;
  // Split backward, for schedules that send dx before they compute weight gradients: the first half
  // defers the weight gradients of linear layers to the second. Until then their inputs stay in
  // ctx.saved, and dy must stay valid.
  Tensor backward_input(ExecContext& ctx, Tensor dy, Saved& saved, Tensor dx = {}) const;
  void backward_weight(ExecContext& ctx, Saved& saved) const;
  // Forward only: same result, in ctx.saved. Fits in the memory that forward and backward need
  // (ctx.saved, ctx.scratch and block memory). Overwrites x.
  Tensor evaluate(ExecContext& ctx, const MicroBatch& batch, Tensor x) const;

  // For generation, on a stage that is the whole model: runs ids [tokens] at `positions` of one
  // sequence, the first at row `first` of the caches, and returns the last token's logits [1,
  // vocab], in ctx.saved.
  Tensor decode(ExecContext& ctx, Tensor ids, Tensor positions, std::int64_t first,
                const std::vector<KeyValueCache>& caches) const;
  // For sequences of up to `capacity` tokens, of which one call decodes up to `at_once`.
  std::vector<KeyValueCache> make_caches(Arena& arena, std::int64_t capacity,
                                         std::int64_t at_once) const;

  // Makes those codes now, if they are stale; for weights that need no hooks.
  void update_codes(ExecContext& ctx) const;

  // Of the micro-batches whose forwards follow.
  void set_recompute(Recompute recompute) {
    for (Block& block : blocks_) block.set_recompute(recompute);
  }

  bool is_first() const { return embedding_.has_value(); }
  bool is_last() const { return head_.has_value(); }
  DType compute() const { return compute_; }

 private:
  enum class WeightGradients : std::uint8_t { kNow, kDeferred };
  MicroBatch with_window(ExecContext& ctx, const MicroBatch& batch) const;
  Tensor embedding_forward(ExecContext& ctx, Arena& into, const MicroBatch& batch) const;
  Tensor head_forward(ExecContext& ctx, Tensor x, const MicroBatch& batch, bool with_gradient,
                      Head::Saved& saved) const;
  Tensor backward(ExecContext& ctx, Tensor dy, Saved& saved, Tensor dx,
                  WeightGradients weight_gradients) const;
  // Number of a block in the model.
  std::int64_t layer(std::size_t block) const {
    return spec_.first_block + static_cast<std::int64_t>(block);
  }
  ParamStore& params_;
  const ModelConfig config_;
  const Spec spec_;
  Region& region_;
  UnitHooks& hooks_;
  DType compute_ = DType::kF32;
  std::deque<Tensor> rope_tables_;  // by rope_configs(); blocks refer to them
  const Tensor no_rope_;
  bool has_window_ = false;  // of a block
  // Units of the store in the order in which a forward reads them.
  struct Units {
    std::vector<int> embedding;
    std::vector<std::vector<int>> blocks;  // of each, and of its experts
    int head_norm = -1;
    int head_values = -1, head_gradient = -1;  // of the table; gradient -1: the embedding's
  } units_;
  std::optional<Embedding> embedding_;
  std::deque<Block> blocks_;
  std::optional<Head> head_;
};

}  // namespace trireme
