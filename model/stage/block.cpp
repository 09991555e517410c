#include "model/stage/block.h"

#include <cmath>

#include "model/ops/elementwise.h"

namespace trireme {
namespace {

double residual_scale(const ModelConfig& c) {
  const double depth = 2.0 * static_cast<double>(c.num_hidden_layers);
  return c.scale_residual_init ? c.initializer_range / std::sqrt(depth) : c.initializer_range;
}

AttentionSpec attention_spec(const ModelConfig& c, MatmulPrecision precision) {
  return {.hidden = c.hidden_size,
          .heads = {c.num_attention_heads, c.num_key_value_heads, c.head_dim},
          .qkv_bias = c.attention_bias,
          .output_bias = c.attention_output_bias,
          .qk_norm = c.qk_norm,
          .norm_epsilon = c.norm_eps,
          .init_scale = c.initializer_range,
          .output_init_scale = residual_scale(c),
          .precision = precision};
}

MlpSpec mlp_spec(const ModelConfig& c, MatmulPrecision precision) {
  return {.hidden = c.hidden_size,
          .intermediate = c.intermediate_size,
          .gated = c.activation == ActivationKind::kSwiGlu,
          .bias = c.mlp_bias,
          .init_scale = c.initializer_range,
          .down_init_scale = residual_scale(c),
          .precision = precision};
}

}  // namespace

Block::Block(ParamStore& params, const std::string& name, const ModelConfig& config,
             Recompute recompute, MatmulPrecision precision, Seams seams, const Tensor& rope_table)
    : recompute_(recompute),
      region_(seams.region),
      norm1_(params, name + ".attention_norm", config.norm, config.hidden_size, config.norm_eps,
             seams.region),
      attention_(params, name + ".attention", attention_spec(config, precision), seams.region,
                 seams.attention, rope_table),
      norm2_(params, name + ".mlp_norm", config.norm, config.hidden_size, config.norm_eps,
             seams.region),
      mlp_(params, name + ".mlp", mlp_spec(config, precision), seams.region) {}

void Block::forward(ExecContext& ctx, Tensor y, Tensor x, const MicroBatch& batch,
                    Saved& saved) const {
  if (recompute_ == Recompute::kFull) {
    saved.x = x;
    evaluate(ctx, y, x, batch);
  } else {
    const Arena::Frame frame(ctx.scratch);
    compute(ctx, y, x, batch, recompute_, saved);
  }
}

void Block::evaluate(ExecContext& ctx, Tensor y, Tensor x, const MicroBatch& batch) const {
  const Arena::Frame keep(ctx.saved);
  const Arena::Frame scratch(ctx.scratch);
  ExecContext inner{ctx.stream, recompute_ == Recompute::kFull ? ctx.scratch : ctx.saved,
                    ctx.scratch};
  Saved unused;
  compute(inner, y, x, batch, recompute_, unused);
}

void Block::compute(ExecContext& ctx, Tensor y, Tensor x, const MicroBatch& batch,
                    Recompute recompute, Saved& saved) const {
  // If layers recompute for a backward that follows immediately, they save the region's output
  // rather than its input.
  const bool dropped = recompute == Recompute::kSelective ||
                       (recompute == Recompute::kFull && region_.splits_tokens());
  Arena& norms = dropped ? ctx.scratch : ctx.saved;
  const Tensor n1 = norm1_.forward(ctx, norms, x, saved.norm1);
  const Tensor mixed = attention_.forward(ctx, n1, batch, recompute, saved.attention);
  const Tensor n2 = norm2_.forward_add(ctx, norms, x, mixed, saved.norm2);
  ops::add(ctx.stream, y, saved.norm2.x, mlp_.forward(ctx, n2, recompute, saved.mlp));
}

void Block::restore(ExecContext& ctx, const MicroBatch& batch, Saved& saved) const {
  if (recompute_ == Recompute::kSelective) {
    attention_.restore_dropped(ctx, norm1_.again(ctx, saved.norm1), saved.attention);
    mlp_.restore_dropped(ctx, norm2_.again(ctx, saved.norm2), saved.mlp);
  }
  if (recompute_ == Recompute::kFull) {
    ExecContext inner{ctx.stream, ctx.lasting(), ctx.scratch};
    const Tensor n1 = norm1_.forward(inner, inner.saved, saved.x, saved.norm1);
    const Tensor mixed = attention_.forward(inner, n1, batch, Recompute::kFull, saved.attention);
    const Tensor n2 = norm2_.forward_add(inner, inner.saved, saved.x, mixed, saved.norm2);
    mlp_.restore(inner, n2, saved.mlp);
  }
}

void Block::backward(ExecContext& ctx, Tensor dx, Tensor dy, const MicroBatch& batch,
                     Saved& saved) const {
  const Arena::Frame frame(ctx.scratch);
  restore(ctx, batch, saved);
  const Tensor dmid = ctx.lasting().take(dy.shape, dy.dtype);
  {
    const Arena::Frame of_mlp(ctx.scratch);
    norm2_.backward(ctx, dmid, mlp_.backward(ctx, dy, saved.mlp), dy, saved.norm2);
  }
  norm1_.backward(ctx, dx, attention_.backward(ctx, dmid, batch, saved.attention), dmid,
                  saved.norm1);
}

void Block::decode(ExecContext& ctx, Tensor y, Tensor x, Tensor positions, std::int64_t first,
                   const KeyValueCache& cache) const {
  const Arena::Frame frame(ctx.scratch);
  ExecContext inner{ctx.stream, ctx.scratch, ctx.scratch};
  Saved unused;
  const Tensor n1 = norm1_.forward(inner, ctx.scratch, x, unused.norm1);
  const Tensor mixed = attention_.decode(inner, n1, positions, first, cache);
  const Tensor n2 = norm2_.forward_add(inner, ctx.scratch, x, mixed, unused.norm2);
  ops::add(ctx.stream, y, unused.norm2.x, mlp_.forward(inner, n2, Recompute::kNone, unused.mlp));
}

}  // namespace trireme
