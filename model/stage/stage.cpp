#include "model/stage/stage.h"

#include <algorithm>
#include <array>

#include "model/layers/vocab_table.h"
#include "model/ops/elementwise.h"
#include "model/stage/rope_table.h"
#include "model/tensor/host_mirror.h"

namespace trireme {

Stage::Stage(ParamStore& params, const ModelConfig& config, const Spec& spec, Seams seams,
             UnitHooks& hooks)
    : params_(params), config_(config), spec_(spec), region_(seams.region), hooks_(hooks) {
  const bool learned = config.position == PositionKind::kLearned;
  const bool tied = config.tie_word_embeddings;
  if (spec.first_block == 0) {
    embedding_.emplace(params,
                       EmbeddingSpec{.vocab = config.vocab_size,
                                     .hidden = config.hidden_size,
                                     .positions = learned ? config.max_position_embeddings : 0,
                                     .init_scale = config.initializer_range,
                                     .tied = tied},
                       region_);
    units_.embedding = embedding_->units();
  }
  for (std::int64_t i = spec.first_block; i < spec.end_block; ++i) {
    units_.blocks.push_back(params.begin_unit(static_cast<int>(i)));
    blocks_.emplace_back(params, say("layers.", i), config, spec.recompute, spec.factors, seams,
                         rope_table_);
  }
  if (spec.end_block != config.num_hidden_layers) return;
  Weight* table = tied && embedding_ ? &embedding_->table() : nullptr;
  if (table) units_.head_values = table->unit;
  if (table && spec.tied_gradient_apart) {
    table = &params.declare_apart(*table);
    units_.head_gradient = table->unit;
  }
  if (!table) {
    units_.head_values = units_.head_gradient = params.begin_unit(-1, tied);
    const char* name = tied ? "embedding.weight" : "head.weight";
    ParamSpec spec_of_table = vocab_table(name, config.vocab_size, config.hidden_size,
                                          config.initializer_range, region_.slice());
    // The first stage's table is the one that stands for both.
    if (tied) spec_of_table.cut.replica = {1, 2};
    table = &params.declare(std::move(spec_of_table));
  }
  units_.head_norm = params.begin_unit();
  head_.emplace(params, config.norm, config.hidden_size, config.norm_eps, *table, region_);
}

void Stage::allocate(ParamStore::Places places, DType compute, bool planning) {
  params_.allocate(places, compute);
  take_tables(places.weights, compute, planning);
}

void Stage::take_tables(Arena& weights, DType compute, bool planning) {
  compute_ = compute;
  if (config_.position != PositionKind::kRotary) return;
  rope_table_ = weights.take({spec_.max_positions, config_.head_dim}, accumulator_of(compute));
  if (planning) return;
  Stream stream(rope_table_.device);
  const HostMirror table(stream, rope_table_);
  fill_rope_table(table.host(), config_);
  table.upload(stream);
  stream.synchronize();
}

Shape Stage::boundary(std::int64_t tokens) const {
  return {region_.own_tokens(tokens), config_.hidden_size};
}

Tensor Stage::enter(Run& run, const Input& input) const {
  if (!embedding_) return input.x;
  for (const int unit : units_.embedding) hooks_.before_forward(run.stream, unit);
  const Arena::Frame frame(run.scratch);
  return embedding_->forward(run, run.keep, input.ids, input.sequence.positions);
}

Tensor Stage::forward(Run& run, const Input& input, Saved& saved) const {
  saved.input = input;
  saved.blocks.resize(blocks_.size());
  Tensor x = enter(run, input);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    hooks_.before_forward(run.stream, units_.blocks[i]);
    x = blocks_[i].forward(run, x, input.sequence, saved.blocks[i]);
  }
  if (!head_) return x;
  saved.hidden = x;
  return leave(run, x, input, true, saved.head);
}

// The head's table gets its gradient on the way forward.
Tensor Stage::leave(Run& run, Tensor x, const Input& input, bool with_gradient,
                    Head::Saved& saved) const {
  hooks_.before_forward(run.stream, units_.head_norm);
  hooks_.before_forward(run.stream, units_.head_values);
  const bool has_unit = with_gradient && units_.head_gradient >= 0;
  if (has_unit) hooks_.before_gradients(run.stream, units_.head_gradient);
  const Tensor loss = head_->forward(run, x, {input.targets, input.scale, with_gradient}, saved);
  if (has_unit) hooks_.after_gradients(run.stream, units_.head_gradient);
  return loss;
}

Tensor Stage::backward(Run& run, Tensor dy, Saved& saved, Tensor dx) const {
  return go_back(run, dy, saved, dx, Weights::kNow);
}

Tensor Stage::backward_input(Run& run, Tensor dy, Saved& saved, Tensor dx) const {
  return go_back(run, dy, saved, dx, Weights::kLater);
}

void Stage::backward_weight(Run& run, Saved& saved) const {
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    saved.blocks[i].deferred.compute(run);
    hooks_.after_gradients(run.stream, units_.blocks[i]);
  }
}

Tensor Stage::go_back(Run& run, Tensor dy, Saved& saved, Tensor to_previous,
                      Weights weights) const {
  const Input& input = saved.input;
  const Shape shape = boundary(input.sequence.tokens());
  if (!is_first() && !to_previous) to_previous = run.keep.take(shape, compute_);
  const Arena::Frame frame(run.scratch);
  // Gradients of activations go to and fro between two buffers, unless they are read
  // once more later.
  std::array<Tensor, 2> buffers;
  if (weights == Weights::kNow) {
    for (Tensor& buffer : buffers) buffer = run.scratch.take(shape, compute_);
  }
  const auto take_other_than = [&](const Tensor& taken) {
    if (weights == Weights::kLater) return run.keep.take(shape, compute_);
    return taken.data == buffers[0].data ? buffers[1] : buffers[0];
  };
  if (head_) {
    const Arena::Frame of_head(run.scratch);
    dy = take_other_than({});
    hooks_.before_backward(run.stream, units_.head_norm);
    hooks_.before_gradients(run.stream, units_.head_norm);
    head_->backward(run, dy, saved.head);
    hooks_.after_gradients(run.stream, units_.head_norm);
  }
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    hooks_.before_backward(run.stream, units_.blocks[i]);
    hooks_.before_gradients(run.stream, units_.blocks[i]);
    const Tensor dx = i == 0 && !is_first() ? to_previous : take_other_than(dy);
    Run of_block = run;
    if (weights == Weights::kLater) of_block.deferred = &saved.blocks[i].deferred;
    blocks_[i].backward(of_block, dx, dy, input.sequence, saved.blocks[i]);
    if (weights == Weights::kNow) hooks_.after_gradients(run.stream, units_.blocks[i]);
    dy = dx;
  }
  if (!embedding_) return to_previous;
  for (const int unit : units_.embedding) hooks_.before_gradients(run.stream, unit);
  embedding_->backward(run, dy, input.ids, input.sequence.positions);
  for (const int unit : units_.embedding) hooks_.after_gradients(run.stream, unit);
  return to_previous;
}

Tensor Stage::evaluate(Run& run, const Input& input) const {
  Tensor x = enter(run, input);
  Tensor y = run.keep.take(x.shape, compute_);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    hooks_.before_forward(run.stream, units_.blocks[i]);
    blocks_[i].evaluate(run, y, x, input.sequence);
    std::swap(x, y);
  }
  if (!head_) return x;
  Head::Saved unused;
  return leave(run, x, input, false, unused);
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
    hooks_.before_forward(run.stream, units_.blocks[i]);
    blocks_[i].decode(run, y, x, positions, first, caches[i]);
    std::swap(x, y);
  }
  head_->logits(run, logits, x.row_slice(x.rows() - 1, 1));
  return logits;
}

}  // namespace trireme
