#include "model/stage/stage.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "model/base/philox.h"
#include "model/device/profile_range.h"
#include "model/layers/vocab_table.h"
#include "model/ops/attention.h"
#include "model/stage/rope_table.h"
#include "model/tensor/host_mirror.h"

namespace trireme {
namespace {

// The block memory of a run.
class Blocks {
 public:
  explicit Blocks(const ExecContext& ctx) : memory_(ctx.blocks ? *ctx.blocks : in_keep_) {}
  BlockMemory& memory() { return memory_; }

 private:
  BlockMemory in_keep_;
  BlockMemory& memory_;
};

EmbeddingSpec embedding_spec(const ModelConfig& c, const Stage::Spec& spec) {
  const double width = static_cast<double>(c.hidden_size);
  return {.vocab = c.vocab_size,
          .hidden = c.hidden_size,
          .vocab_tile = spec.vocab_tile,
          .positions = c.position == PositionKind::kLearned ? c.max_position_embeddings : 0,
          .init_scale = c.initializer_range,
          .multiplier = c.embedding_multiplier * (c.scale_embedding ? std::sqrt(width) : 1),
          .rounds_multiplier = c.scale_embedding,
          .tied = c.tie_word_embeddings,
          .dropout = {.rate = spec.dropout.embedding, .key = random_key(0, "embedding")}};
}

}  // namespace

Stage::Stage(ParamStore& params, const ModelConfig& config, const Spec& spec, Seams seams,
             UnitHooks& hooks)
    : params_(params), config_(config), spec_(spec), region_(seams.region), hooks_(hooks) {
  const bool tied = config.tie_word_embeddings;
  if (spec.first_block == 0) {
    embedding_.emplace(params, embedding_spec(config, spec), region_);
    units_.embedding = embedding_->units();
  }
  rope_tables_.resize(rope_configs(config).size());
  const std::vector<LayerConfig> layers = layer_configs(config);
  for (std::int64_t i = spec.first_block; i < spec.end_block; ++i) {
    const LayerConfig& layer = layers[i];
    const int unit = params.begin_unit(static_cast<int>(i));
    blocks_.emplace_back(params, say("layers.", i), config,
                         Block::Spec{spec.recompute, spec.precision, layer, spec.dropout, i}, seams,
                         layer.rope < 0 ? no_rope_ : rope_tables_[layer.rope]);
    const int experts = params.units()[unit].experts;
    units_.blocks.push_back(experts < 0 ? std::vector{unit} : std::vector{unit, experts});
    has_window_ |= layer.window > 0;
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
    ParamSpec spec_of_table =
        vocab_table(name, config.vocab_size, config.hidden_size, config.initializer_range,
                    region_.slice(), spec.vocab_tile);
    // The first stage's table is the primary replica.
    if (tied) spec_of_table.cut.replica = {1, 2};
    table = &params.declare(std::move(spec_of_table));
  }
  units_.head_norm = params.begin_unit();
  head_.emplace(params, norm_spec(config),
                ops::LogitForm{.scale = 1 / config.logits_scaling,
                               .soft_cap = config.final_logit_softcapping,
                               .z_loss = spec.z_loss},
                *table, region_);
}

void Stage::allocate(ParamStore::Places places, DType compute, bool planning) {
  params_.allocate(places, compute);
  take_tables(places.weights, compute, planning);
}

void Stage::take_tables(Arena& weights, DType compute, bool planning) {
  compute_ = compute;
  const std::vector<RopeConfig> ropes = rope_configs(config_);
  for (std::size_t i = 0; i < ropes.size(); ++i) {
    Tensor& table = rope_tables_[i];
    table = weights.take({spec_.max_positions, config_.rotary_dim()}, accumulator_of(compute));
    if (planning) continue;
    Stream stream(table.device);
    const HostMirror mirror(stream, table);
    fill_rope_table(mirror.host(), config_, ropes[i]);
    mirror.upload(stream);
    stream.synchronize();
  }
}

void Stage::take_codes(Arena& weights) {
  for (Block& block : blocks_) block.take_codes(weights);
}

void Stage::update_codes(ExecContext& ctx) const {
  for (const Block& block : blocks_) block.update_codes(ctx);
}

Shape Stage::boundary(std::int64_t tokens) const {
  return {region_.own_tokens(tokens), config_.hidden_size};
}

// The micro-batch with the first tokens that layers with a sliding window see, in ctx.saved.
MicroBatch Stage::with_window(ExecContext& ctx, const MicroBatch& batch) const {
  MicroBatch with = batch;
  if (!has_window_ || config_.sliding_window >= batch.whole_seq_len()) return with;
  const auto of = [&](Tensor document_start, Tensor rows, std::int64_t seq_len) {
    const Tensor start = ctx.saved.take({document_start.count()}, DType::kI32);
    ops::window_start(ctx.stream, start, document_start, rows, seq_len, config_.sliding_window);
    return start;
  };
  if (batch.shard.heads.seq_len == 0) {
    with.window_start = of(batch.document_start, batch.rows(), batch.seq_len);
  } else {
    const MicroBatch seen = batch.after_exchange();
    with.shard.heads.window_start = of(seen.document_start, seen.rows(), seen.seq_len);
  }
  return with;
}

Tensor Stage::embedding_forward(ExecContext& ctx, Arena& into, const MicroBatch& batch) const {
  const ProfileRange range(ctx.stream, "embedding");
  for (const int unit : units_.embedding) hooks_.before_forward(ctx.stream, unit);
  const Arena::Frame frame(ctx.scratch);
  return embedding_->forward(ctx, into, batch.ids, batch.positions, batch.dropout_words);
}

Tensor Stage::forward(ExecContext& ctx, const MicroBatch& given, Tensor x, Saved& saved) const {
  saved.batch = with_window(ctx, given);
  const MicroBatch& batch = saved.batch;
  saved.blocks.resize(blocks_.size());
  Blocks blocks(ctx);
  BlockMemory& memory = blocks.memory();
  Arena* own = blocks_.empty() ? &ctx.saved : &memory.begin(ctx, 0);
  if (embedding_) x = embedding_forward(ctx, *own, batch);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const ProfileRange range(ctx.stream, "layer", layer(i));
    for (const int unit : units_.blocks[i]) hooks_.before_forward(ctx.stream, unit);
    // A block's output is saved as the next one's input; the last one's is read until it is sent.
    Arena& next = i + 1 == blocks_.size() ? ctx.saved : memory.begin(ctx, i + 1);
    const Tensor y = next.take(x.shape, x.dtype);
    ExecContext of_block{ctx.stream, *own, ctx.scratch};
    blocks_[i].update_codes(of_block);
    blocks_[i].forward(of_block, y, x, batch, saved.blocks[i]);
    memory.offload(ctx, i);
    own = &next;
    x = y;
  }
  if (!head_) return x;
  saved.hidden = x;
  return head_forward(ctx, x, batch, true, saved.head);
}

// The head computes its weight gradient during the forward.
Tensor Stage::head_forward(ExecContext& ctx, Tensor x, const MicroBatch& batch, bool with_gradient,
                           Head::Saved& saved) const {
  const ProfileRange range(ctx.stream, "head");
  hooks_.before_forward(ctx.stream, units_.head_norm);
  hooks_.before_forward(ctx.stream, units_.head_values);
  const bool has_unit = with_gradient && units_.head_gradient >= 0;
  if (has_unit) hooks_.before_gradients(ctx.stream, units_.head_gradient);
  const Tensor loss =
      head_->forward(ctx, x, {batch.targets, batch.scale, with_gradient, with_gradient}, saved);
  if (has_unit) hooks_.after_gradients(ctx.stream, units_.head_gradient);
  return loss;
}

Tensor Stage::backward(ExecContext& ctx, Tensor dy, Saved& saved, Tensor dx) const {
  return backward(ctx, dy, saved, dx, WeightGradients::kNow);
}

Tensor Stage::backward_input(ExecContext& ctx, Tensor dy, Saved& saved, Tensor dx) const {
  return backward(ctx, dy, saved, dx, WeightGradients::kDeferred);
}

void Stage::backward_weight(ExecContext& ctx, Saved& saved) const {
  Blocks blocks(ctx);
  BlockMemory& memory = blocks.memory();
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    const ProfileRange range(ctx.stream, "layer", layer(i));
    memory.fetch(ctx, i);
    memory.prefetch_before(ctx, i);
    saved.blocks[i].deferred.compute(ctx);
    memory.release(ctx, i);
    for (const int unit : units_.blocks[i]) hooks_.after_gradients(ctx.stream, unit);
  }
}

Tensor Stage::backward(ExecContext& ctx, Tensor dy, Saved& saved, Tensor to_previous,
                       WeightGradients weight_gradients) const {
  const MicroBatch& batch = saved.batch;
  const Shape shape = boundary(batch.tokens());
  if (!is_first() && !to_previous) to_previous = ctx.saved.take(shape, compute_);
  const Arena::Frame frame(ctx.scratch);
  // Activation gradients alternate between two buffers, unless they are read again later.
  std::array<Tensor, 2> buffers;
  if (weight_gradients == WeightGradients::kNow) {
    for (Tensor& buffer : buffers) buffer = ctx.scratch.take(shape, compute_);
  }
  const auto take_other_than = [&](const Tensor& taken, Arena& lasting) {
    if (weight_gradients == WeightGradients::kDeferred) return lasting.take(shape, compute_);
    return taken.data == buffers[0].data ? buffers[1] : buffers[0];
  };
  if (head_) {
    const ProfileRange range(ctx.stream, "head");
    const Arena::Frame of_head(ctx.scratch);
    dy = take_other_than({}, ctx.saved);
    hooks_.before_backward(ctx.stream, units_.head_norm);
    hooks_.before_gradients(ctx.stream, units_.head_norm);
    head_->backward(ctx, dy, saved.head);
    hooks_.after_gradients(ctx.stream, units_.head_norm);
  }
  Blocks blocks(ctx);
  BlockMemory& memory = blocks.memory();
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    const ProfileRange range(ctx.stream, "layer", layer(i));
    for (const int unit : units_.blocks[i]) {
      hooks_.before_backward(ctx.stream, unit);
      hooks_.before_gradients(ctx.stream, unit);
    }
    ExecContext of_block{ctx.stream, memory.fetch(ctx, i), ctx.scratch, ctx.deferred};
    Arena* lasting = &ctx.saved;
    if (weight_gradients == WeightGradients::kDeferred) {
      of_block.deferred = &saved.blocks[i].deferred;
      of_block.deferred->clear();
      // A gradient that the previous block reads again later is in that block's memory.
      if (i > 0) lasting = &memory.fetch(ctx, i - 1);
    }
    memory.prefetch_before(ctx, i);
    const Tensor dx = i == 0 && !is_first() ? to_previous : take_other_than(dy, *lasting);
    blocks_[i].backward(of_block, dx, dy, batch, saved.blocks[i]);
    if (weight_gradients == WeightGradients::kNow) {
      for (const int unit : units_.blocks[i]) hooks_.after_gradients(ctx.stream, unit);
      memory.release(ctx, i);
    } else {
      memory.offload(ctx, i);
    }
    dy = dx;
  }
  if (!embedding_) return to_previous;
  const ProfileRange range(ctx.stream, "embedding");
  for (const int unit : units_.embedding) hooks_.before_gradients(ctx.stream, unit);
  embedding_->backward(ctx, dy, batch.ids, batch.positions, batch.dropout_words);
  for (const int unit : units_.embedding) hooks_.after_gradients(ctx.stream, unit);
  return to_previous;
}

Tensor Stage::evaluate(ExecContext& ctx, const MicroBatch& given, Tensor x) const {
  const MicroBatch batch = with_window(ctx, given);
  Blocks blocks(ctx);
  BlockMemory& memory = blocks.memory();
  const std::size_t count = blocks_.size(), used = std::min<std::size_t>(count, 2);
  Arena& own = count > 0 ? memory.begin(ctx, 0) : ctx.saved;
  if (embedding_) x = embedding_forward(ctx, own, batch);
  // Alternates; the last block's output is read until it is sent.
  Tensor other;
  if (count > 1) other = memory.begin(ctx, 1).take(x.shape, compute_);
  for (std::size_t i = 0; i < count; ++i) {
    for (const int unit : units_.blocks[i]) hooks_.before_forward(ctx.stream, unit);
    const Tensor y = i + 1 == count ? ctx.saved.take(x.shape, compute_) : other;
    ExecContext of_block{ctx.stream, own, ctx.scratch};
    blocks_[i].update_codes(of_block);
    blocks_[i].evaluate(of_block, y, x, batch);
    other = std::exchange(x, y);
  }
  for (std::size_t i = 0; i < used; ++i) memory.release(ctx, i);
  if (!head_) return x;
  Head::Saved unused;
  return head_forward(ctx, x, batch, false, unused);
}

std::vector<KeyValueCache> Stage::make_caches(Arena& arena, std::int64_t capacity,
                                              std::int64_t at_once) const {
  std::vector<KeyValueCache> caches;
  for (const Block& block : blocks_) {
    caches.push_back(block.attention().make_cache(arena, compute_, capacity, at_once));
  }
  return caches;
}

Tensor Stage::decode(ExecContext& ctx, Tensor ids, Tensor positions, std::int64_t first,
                     const std::vector<KeyValueCache>& caches) const {
  require(is_first() && is_last(), "generation requires the whole model in one stage");
  const Tensor logits = ctx.saved.take({1, config_.vocab_size}, compute_);
  const Arena::Frame frame(ctx.scratch);
  Tensor x = embedding_->forward(ctx, ctx.scratch, ids, positions, {});
  Tensor y = ctx.scratch.take(x.shape, compute_);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    for (const int unit : units_.blocks[i]) hooks_.before_forward(ctx.stream, unit);
    blocks_[i].decode(ctx, y, x, positions, first, caches[i]);
    std::swap(x, y);
  }
  head_->logits(ctx, logits, x.row_slice(x.rows() - 1, 1));
  return logits;
}

}  // namespace trireme
