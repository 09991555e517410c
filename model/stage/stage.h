#pragma once
#include <deque>
#include <optional>
#include <vector>

#include "model/layers/embedding.h"
#include "model/layers/head.h"
#include "model/stage/block.h"
#include "model/stage/block_memory.h"
#include "model/stage/unit_hooks.h"

namespace trireme {

// A run of consecutive blocks, with the embedding if it is the first and the
// head if it is the last. The unit the pipeline moves micro-batches through.
class Stage {
 public:
  struct Spec {
    std::int64_t first_block = 0;
    std::int64_t end_block = 0;
    std::int64_t max_positions = 0;  // longest sequence it will see
    Recompute recompute = Recompute::kNone;
    // A tied table's gradients from the head and from the embedding are summed each
    // alone over the step's micro-batches, as when the two are on different ranks.
    bool tied_gradient_apart = false;
    Factors factors = Factors::kAsStored;  // of the blocks' linear layers
  };
  struct Input {
    Sequence sequence;
    Tensor ids;         // [tokens] I32, on the first stage
    Tensor targets;     // [tokens] I32, on the last; -1 where there is nothing to predict
    Tensor x;           // boundary(tokens), what the previous stage sent
    Tensor scale = {};  // [1] F64, none: 1; what is differentiated is scale * the summed loss
  };
  struct Saved {
    Input input;
    std::vector<Block::Saved> blocks;
    Tensor hidden;  // what the head saw
    Head::Saved head;
  };

  // Declares its parameters in `params`; everything given outlives the stage.
  Stage(ParamStore& params, const ModelConfig& config, const Spec& spec, Seams seams,
        UnitHooks& hooks);

  // Takes memory for constant tables from `weights`, and fills them unless `planning`.
  void take_tables(Arena& weights, DType compute, bool planning);
  // The same and memory for the parameters, for a stage that has its store to itself.
  void allocate(ParamStore::Places places, DType compute, bool planning);

  // [own tokens, hidden]: the shape of what stages send each other, there and back,
  // for a micro-batch of `tokens`.
  Shape boundary(std::int64_t tokens) const;

  // What goes to the next stage, boundary(tokens); on the last stage the loss of
  // every token [tokens], in the accumulator dtype. In keep.
  Tensor forward(Run& run, const Input& input, Saved& saved) const;
  // What goes back to the previous stage, in `dx` when given, else in keep; nothing on
  // the first.
  Tensor backward(Run& run, Tensor dy, Saved& saved, Tensor dx = {}) const;
  // The same in two halves, for schedules that send dx on before they work on the
  // weights: the first leaves the gradients of linear layers' weights to the second.
  // Until then it takes more of keep, for what these are made from, and dy must last.
  Tensor backward_input(Run& run, Tensor dy, Saved& saved, Tensor dx = {}) const;
  void backward_weight(Run& run, Saved& saved) const;
  // Forward alone: the same result, in keep, of which (as of scratch and of the blocks'
  // memory) it takes no more than forward and backward do. Overwrites input.x.
  Tensor evaluate(Run& run, const Input& input) const;

  // For generation, on a stage that is the whole model: runs ids [tokens], which
  // stand at `positions` of one sequence, the first at row `first` of the caches,
  // and returns the last token's logits [1, vocab], in keep.
  Tensor decode(Run& run, Tensor ids, Tensor positions, std::int64_t first,
                const std::vector<KeyValueCache>& caches) const;
  std::vector<KeyValueCache> make_caches(Arena& arena, std::int64_t capacity) const;

  bool is_first() const { return embedding_.has_value(); }
  bool is_last() const { return head_.has_value(); }
  DType compute() const { return compute_; }

 private:
  enum class Weights : std::uint8_t { kNow, kLater };
  Tensor enter(Run& run, Arena& into, const Input& input) const;
  Tensor leave(Run& run, Tensor x, const Input& input, bool with_gradient,
               Head::Saved& saved) const;
  Tensor go_back(Run& run, Tensor dy, Saved& saved, Tensor dx, Weights weights) const;
  ParamStore& params_;
  const ModelConfig config_;
  const Spec spec_;
  Region& region_;
  UnitHooks& hooks_;
  DType compute_ = DType::kF32;
  Tensor rope_table_;
  // Units of the store, in the order in which a forward reads them.
  struct Units {
    std::vector<int> embedding, blocks;
    int head_norm = -1;
    int head_values = -1, head_gradient = -1;  // of the table; the latter -1: the embedding's
  } units_;
  std::optional<Embedding> embedding_;
  std::deque<Block> blocks_;
  std::optional<Head> head_;
};

}  // namespace trireme
