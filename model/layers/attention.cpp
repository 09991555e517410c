#include "model/layers/attention.h"

#include <algorithm>

#include "model/ops/attention_sink.h"
#include "model/ops/head_norm.h"
#include "model/ops/rope.h"

namespace trireme {
namespace {

// With fewer key-value heads than ranks, adjacent ranks share a head: each uses it for its own
// queries, so its gradient is the sum over them.
Cut key_cut(const ops::Heads& heads, Slice slice) {
  return cut_pieces(0, heads.kv_heads, slice);
}

ops::Heads held(ops::Heads heads, Slice slice) {
  if (heads.heads % slice.count != 0) {
    throw ConfigError(
        say(heads.heads, " attention heads do not divide by ", slice.count, " ranks"));
  }
  heads.heads /= slice.count;
  heads.kv_heads /= key_cut(heads, slice).slice.count;
  return heads;
}

Linear declare_in(ParamStore& params, const std::string& name, const AttentionSpec& spec,
                  const Region& region) {
  const Cut queries{0, region.slice()};
  const Cut keys = key_cut(spec.heads, region.slice());
  std::vector<ParamSpec> weights;
  std::vector<ParamSpec> biases;
  const auto add = [&](const char* part, std::int64_t heads, Cut cut) {
    const std::int64_t width = heads * spec.heads.width;
    weights.push_back({.name = name + part + ".weight",
                       .shape = {width, spec.hidden},
                       .cut = cut,
                       .init_scale = spec.init_scale,
                       .decay = true,
                       .partial = cut.replica.count > 1});
    biases.push_back({.name = name + part + ".bias",
                      .shape = {width},
                      .cut = cut,
                      .init = Init::kZeros,
                      .partial = cut.replica.count > 1});
  };
  add(".q", spec.heads.heads, queries);
  add(".k", spec.heads.kv_heads, keys);
  add(".v", spec.heads.kv_heads, keys);
  Weight& weight = params.declare(std::move(weights));
  return {weight, spec.qkv_bias ? &params.declare(std::move(biases)) : nullptr, spec.precision};
}

Linear declare_out(ParamStore& params, const std::string& name, const AttentionSpec& spec,
                   const Region& region) {
  Weight& weight = params.declare({.name = name + ".o.weight",
                                   .shape = {spec.hidden, spec.heads.query()},
                                   .cut = {1, region.slice()},
                                   .init_scale = spec.output_init_scale,
                                   .decay = true});
  return {weight,
          spec.output_bias ? &params.declare({.name = name + ".o.bias",
                                              .shape = {spec.hidden},
                                              .cut = whole(region.slice()),
                                              .init = Init::kZeros,
                                              .partial = region.splits_tokens()})
                           : nullptr,
          spec.precision};
}

}  // namespace

Attention::Attention(ParamStore& params, const std::string& name, const AttentionSpec& spec,
                     Region& region, AttentionCore& core, const Tensor& rope_table)
    : region_(region),
      core_(core),
      rope_table_(rope_table),
      spec_(spec),
      heads_(held(spec.heads, region.slice())),
      key_share_(1.0 / key_cut(spec.heads, region.slice()).replica.count),
      in_(declare_in(params, name, spec, region)),
      out_(declare_out(params, name, spec, region)) {
  if (spec.sinks) {
    sinks_ = &params.declare({.name = name + ".sinks",
                              .shape = {spec.heads.heads},
                              .cut = {0, region.slice()},
                              .init_scale = spec.init_scale});
  }
  if (spec.qk_norm == QkNorm::kNone) return;
  const auto gain = [&](const char* part, std::int64_t width, Cut cut, bool partial) {
    return &params.declare({.name = name + part,
                            .shape = {width},
                            .cut = cut,
                            .init = spec.norm_gain_offset == 0 ? Init::kOnes : Init::kZeros,
                            .partial = partial});
  };
  const char *const query = ".q_norm.weight", *const key = ".k_norm.weight";
  if (spec.qk_norm == QkNorm::kHead) {
    // Inside the region the heads of every rank contribute a partial gradient.
    const Cut all = whole(region.slice());
    query_gain_ = gain(query, spec.heads.width, all, true);
    key_gain_ = gain(key, spec.heads.width, all, true);
  } else {
    const Cut keys = key_cut(spec.heads, region.slice());
    query_gain_ = gain(query, spec.heads.query(), {0, region.slice()}, false);
    key_gain_ = gain(key, spec.heads.kv_heads * spec.heads.width, keys, keys.replica.count > 1);
  }
}

void Attention::take_codes(Arena& arena) {
  in_.take_codes(arena);
  out_.take_codes(arena);
}

void Attention::update_codes(ExecContext& ctx) const {
  in_.update_codes(ctx);
  out_.update_codes(ctx);
}

ops::AttentionShape Attention::shape(const MicroBatch& batch) const {
  const std::int64_t window = spec_.window < batch.whole_seq_len() ? spec_.window : 0;
  return {.batch = batch.sequences,
          .seq = batch.seq_len,
          .heads = heads_,
          .scale = spec_.scale,
          .masked = batch.documents || window > 0,
          .window = window,
          .soft_cap = spec_.soft_cap,
          .dropout = spec_.dropout.with(batch.dropout_words),
          .first_head = heads_.heads * region_.slice().index};
}

Tensor Attention::normalize(ExecContext& ctx, Tensor qkv, Saved& saved) const {
  const DType statistics = accumulator_of(qkv.dtype);
  saved.before_norm = qkv;
  const Tensor y = ctx.saved.take(qkv.shape, qkv.dtype);
  if (spec_.qk_norm == QkNorm::kHead) {
    saved.norms = ctx.saved.take({qkv.rows(), heads_.heads + heads_.kv_heads}, statistics);
    ops::head_norm(ctx.stream, {.y = y,
                                .inv_rms = saved.norms,
                                .x = qkv,
                                .query_gain = query_gain_->value,
                                .key_gain = key_gain_->value,
                                .heads = heads_,
                                .epsilon = spec_.norm_epsilon,
                                .gain_offset = spec_.norm_gain_offset});
    return y;
  }
  saved.norms = ctx.saved.take({qkv.rows(), 2}, statistics);
  ops::projection_squares(ctx.stream, saved.norms, qkv, heads_, key_share_);
  region_.sum(ctx, saved.norms);
  ops::projection_norm(ctx.stream, {.y = y,
                                    .x = qkv,
                                    .squares = saved.norms,
                                    .query_gain = query_gain_->value,
                                    .key_gain = key_gain_->value,
                                    .heads = heads_,
                                    .query_width = spec_.heads.query(),
                                    .key_width = spec_.heads.kv_heads * spec_.heads.width,
                                    .epsilon = spec_.norm_epsilon});
  return y;
}

void Attention::normalize_backward(ExecContext& ctx, Tensor dqkv, const Saved& saved) const {
  const ops::Accumulate accumulate = Linear::gradient_accumulate(*query_gain_);
  require(Linear::gradient_accumulate(*key_gain_) == accumulate,
          "QK-norm's gains are used together");
  if (spec_.qk_norm == QkNorm::kHead) {
    ops::head_norm_backward(ctx.stream, ctx.scratch,
                            {.dqkv = dqkv,
                             .dquery_gain = query_gain_->grad,
                             .dkey_gain = key_gain_->grad,
                             .x = saved.before_norm,
                             .query_gain = query_gain_->value,
                             .key_gain = key_gain_->value,
                             .inv_rms = saved.norms,
                             .heads = heads_,
                             .accumulate = accumulate,
                             .gain_offset = spec_.norm_gain_offset});
    return;
  }
  const Arena::Frame frame(ctx.scratch);
  const Tensor dots = ctx.scratch.take(saved.norms.shape, saved.norms.dtype);
  const ops::ProjectionNormBackward how{.dqkv = dqkv,
                                        .dquery_gain = query_gain_->grad,
                                        .dkey_gain = key_gain_->grad,
                                        .x = saved.before_norm,
                                        .squares = saved.norms,
                                        .dots = dots,
                                        .query_gain = query_gain_->value,
                                        .key_gain = key_gain_->value,
                                        .heads = heads_,
                                        .query_width = spec_.heads.query(),
                                        .key_width = spec_.heads.kv_heads * spec_.heads.width,
                                        .key_share = key_share_,
                                        .epsilon = spec_.norm_epsilon,
                                        .accumulate = accumulate};
  ops::projection_dots(ctx.stream, how);
  region_.sum(ctx, dots);
  ops::projection_norm_backward(ctx.stream, ctx.scratch, how);
}

void Attention::rotate(ExecContext& ctx, Tensor qkv, Tensor positions, bool backward) const {
  if (!rope_table_) return;
  ops::rope(ctx.stream, qkv, positions, rope_table_,
            {.heads = heads_,
             .rotated = rope_table_.width(),
             .interleaved = spec_.rope_interleaved,
             .backward = backward});
}

// Queries, keys and values of x after QK-norm and rotary embedding, in ctx.saved.
Tensor Attention::project(ExecContext& ctx, const MeasuredTensor& x, Tensor positions,
                          Saved& saved) const {
  Tensor qkv = in_.forward(ctx, ctx.saved, x, saved.in);
  if (spec_.qk_norm != QkNorm::kNone) qkv = normalize(ctx, qkv, saved);
  rotate(ctx, qkv, positions, false);
  return qkv;
}

void Attention::mix(ExecContext& ctx, const MicroBatch& batch, Saved& saved) const {
  const Tensor qkv = saved.qkv;
  saved.mixed = ctx.saved.take({qkv.rows(), heads_.query()}, qkv.dtype);
  saved.lse = ctx.saved.take({qkv.rows(), heads_.heads}, accumulator_of(qkv.dtype));
  core_.forward(ctx, saved.mixed, saved.lse, qkv, batch, shape(batch));
  if (sinks_) ops::attention_sink(ctx.stream, saved.mixed, saved.lse, sinks_->value, heads_);
}

// This rank's term of the output projection, reduced over all ranks, in `into`.
Tensor Attention::join(ExecContext& ctx, Arena& into, Tensor mixed, Saved& saved,
                       const Residual& residual) const {
  if (residual) {
    out_.forward_add(ctx, residual, mixed, saved.out);
    return residual.sum;
  }
  Arena& passing = region_.splits_tokens() ? ctx.scratch : into;
  const Tensor partial = out_.forward(ctx, passing, mixed, saved.out, region_.slice());
  return region_.leave(ctx, into, partial);
}

Tensor Attention::forward(ExecContext& ctx, Arena& into, const MeasuredTensor& x,
                          const MicroBatch& batch, Recompute recompute, Saved& saved,
                          const Residual& residual) const {
  const bool again = region_.recomputes_enter(recompute);
  Arena& entered = drops_norms(recompute) || again ? ctx.scratch : ctx.saved;
  saved.qkv = project(ctx, enter(ctx, region_, entered, x), batch.positions, saved);
  if (again) saved.in = {.own = x.values, .inverse_scale = saved.in.inverse_scale};
  mix(ctx, batch, saved);
  return join(ctx, into, saved.mixed, saved, residual);
}

void Attention::restore_dropped(ExecContext& ctx, Tensor x, Saved& saved) const {
  saved.in.x = region_.enter(ctx, ctx.lasting(), x);
}

Tensor Attention::backward(ExecContext& ctx, Tensor dy, const MicroBatch& batch,
                           const Saved& saved) const {
  const Tensor d = region_.leave_backward(ctx, dy);
  Linear::Gradient of_out(d, dy);
  const Tensor dmixed = out_.backward_input(ctx, of_out);
  out_.backward_weight(ctx, of_out, saved.out);
  if (sinks_) {
    ops::attention_sink_backward(ctx.stream, ctx.scratch,
                                 {.dsinks = sinks_->grad,
                                  .dout = dmixed,
                                  .out = saved.mixed,
                                  .lse = saved.lse,
                                  .sinks = sinks_->value,
                                  .heads = heads_,
                                  .accumulate = Linear::gradient_accumulate(*sinks_)});
  }
  const Tensor dqkv = in_.gradient_arena(ctx).take(saved.qkv.shape, dy.dtype);
  const ops::AttentionShape how = shape(batch);
  core_.backward(ctx,
                 {.dqkv = dqkv,
                  .dout = dmixed,
                  .out = saved.mixed,
                  .qkv = saved.qkv,
                  .lse = saved.lse,
                  .first_seen = batch.first_seen(how.window > 0)},
                 batch, how);
  rotate(ctx, dqkv, batch.positions, true);
  if (spec_.qk_norm != QkNorm::kNone) normalize_backward(ctx, dqkv, saved);
  const Linear::Saved in = entered(ctx, region_, saved.in);
  Linear::Gradient of_in(dqkv);
  const Tensor dx = region_.start_enter_backward(ctx, in_.backward_input(ctx, of_in));
  in_.backward_weight(ctx, of_in, in);
  region_.finish(ctx);
  return dx;
}

KeyValueCache Attention::make_cache(Arena& arena, DType dtype, std::int64_t capacity,
                                    std::int64_t at_once) const {
  const std::int64_t ring = spec_.window > 0 ? spec_.window + at_once - 1 : capacity;
  const Shape shape{std::min(capacity, ring), heads_.kv_heads * heads_.width};
  return {arena.take(shape, dtype), arena.take(shape, dtype)};
}

Tensor Attention::decode(ExecContext& ctx, Tensor x, Tensor positions, std::int64_t first,
                         const KeyValueCache& cache) const {
  Saved saved;
  const Tensor h = region_.enter(ctx, ctx.scratch, x);
  const Tensor qkv = project(ctx, h, positions, saved);
  const Tensor mixed = ctx.scratch.take({h.rows(), heads_.query()}, x.dtype);
  ops::attention_cached(ctx.stream, ctx.scratch,
                        {.out = mixed,
                         .qkv = qkv,
                         .keys = cache.keys,
                         .values = cache.values,
                         .first = first,
                         .heads = heads_,
                         .scale = spec_.scale,
                         .soft_cap = spec_.soft_cap,
                         .window = spec_.window,
                         .sinks = sinks_ ? sinks_->value : Tensor{}});
  return join(ctx, ctx.scratch, mixed, saved, {});
}

}  // namespace trireme
