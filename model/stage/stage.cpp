#include "model/stage/stage.h"

#include <algorithm>
#include <array>

#include "model/stage/rope_table.h"

namespace trireme {

Stage::Stage(ParamStore& params, const ModelConfig& config, const Spec& spec, Seams seams,
             BlockHooks& hooks)
    : params_(params), config_(config), spec_(spec), hooks_(hooks) {
  Region& region = seams.region;
  const bool learned = config.position == PositionKind::kLearned;
  if (spec.first_block == 0) {
    embedding_.emplace(params,
                       EmbeddingSpec{.vocab = config.vocab_size,
                                     .hidden = config.hidden_size,
                                     .positions = learned ? config.max_position_embeddings : 0,
                                     .init_scale = config.initializer_range},
                       region);
  }
  for (std::int64_t i = spec.first_block; i < spec.end_block; ++i) {
    blocks_.emplace_back(params, say("layers.", i), config, spec.recompute, seams, rope_table_);
  }
  if (spec.end_block != config.num_hidden_layers) return;
  Weight* table = config.tie_word_embeddings && embedding_ ? &embedding_->table() : nullptr;
  if (!table) {
    table =
        &params.declare({.name = config.tie_word_embeddings ? "embedding.weight" : "head.weight",
                         .shape = {config.vocab_size, config.hidden_size},
                         .cut = {0, region.slice()},
                         .init_scale = config.initializer_range,
                         .decay = true});
  }
  head_.emplace(params, config.norm, config.hidden_size, config.norm_eps, *table, config.vocab_size,
                region);
}

void Stage::allocate(ParamStore::Places places, DType compute, bool planning) {
  compute_ = compute;
  params_.allocate(places, compute);
  if (config_.position != PositionKind::kRotary) return;
  rope_table_ =
      places.weights.take({spec_.max_positions, config_.head_dim}, accumulator_of(compute));
  if (!planning) fill_rope_table(rope_table_, config_);
}

Tensor Stage::enter(Run& run, Arena& into, const Input& input) const {
  if (!embedding_) return input.x;
  return embedding_->forward(run, into, input.ids, input.sequence.positions);
}

Tensor Stage::forward(Run& run, const Input& input, Saved& saved) const {
  saved.input = input;
  saved.blocks.resize(blocks_.size());
  Tensor x = enter(run, run.keep, input);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    hooks_.before_forward(static_cast<int>(i));
    x = blocks_[i].forward(run, x, input.sequence, saved.blocks[i]);
  }
  if (!head_) return x;
  saved.hidden = x;
  return head_->forward(run, x, {input.targets, input.scale, true}, saved.head);
}

Tensor Stage::backward(Run& run, Tensor dy, Saved& saved) const {
  const Input& input = saved.input;
  const Shape shape{input.sequence.tokens(), config_.hidden_size};
  const Tensor to_previous = is_first() ? Tensor{} : run.keep.take(shape, compute_);
  const Arena::Frame frame(run.scratch);
  // Gradients of activations go to and fro between two buffers.
  std::array<Tensor, 2> gradients{run.scratch.take(shape, compute_),
                                  run.scratch.take(shape, compute_)};
  if (head_) {
    const Arena::Frame of_head(run.scratch);
    dy = gradients[0];
    head_->backward(run, dy, saved.head);
  }
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    hooks_.before_backward(static_cast<int>(i));
    Tensor dx = dy.data == gradients[0].data ? gradients[1] : gradients[0];
    if (i == 0 && !is_first()) dx = to_previous;
    blocks_[i].backward(run, dx, dy, input.sequence, saved.blocks[i]);
    hooks_.after_backward(static_cast<int>(i));
    dy = dx;
  }
  if (embedding_) embedding_->backward(run, dy, input.ids, input.sequence.positions);
  return to_previous;
}

Tensor Stage::evaluate(Run& run, const Input& input) const {
  Tensor x = enter(run, run.keep, input);
  Tensor y = run.keep.take(x.shape, compute_);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    hooks_.before_forward(static_cast<int>(i));
    blocks_[i].evaluate(run, y, x, input.sequence);
    std::swap(x, y);
  }
  if (!head_) return x;
  Head::Saved unused;
  return head_->forward(run, x, {input.targets, input.scale, false}, unused);
}

std::vector<KeyValueCache> Stage::make_caches(Arena& arena, std::int64_t capacity) const {
  std::vector<KeyValueCache> caches;
  for (const Block& block : blocks_) {
    const Shape shape{capacity, block.heads().kv_heads * block.heads().width};
    caches.push_back({arena.take(shape, compute_), arena.take(shape, compute_)});
  }
  return caches;
}

Tensor Stage::decode(Run& run, Tensor ids, Tensor positions, std::int64_t first,
                     const std::vector<KeyValueCache>& caches) const {
  require(is_first() && is_last(), "generation wants the whole model in one stage");
  const Tensor logits = run.keep.take({1, config_.vocab_size}, compute_);
  const Arena::Frame frame(run.scratch);
  Tensor x = embedding_->forward(run, run.scratch, ids, positions);
  Tensor y = run.scratch.take(x.shape, compute_);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    hooks_.before_forward(static_cast<int>(i));
    blocks_[i].decode(run, y, x, positions, first, caches[i]);
    std::swap(x, y);
  }
  head_->logits(run, logits, x.row_slice(x.rows() - 1, 1));
  return logits;
}

}  // namespace trireme
