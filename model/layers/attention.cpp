#include "model/layers/attention.h"

#include <cmath>

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
      heads_(held(spec.heads, region.slice())),
      norm_epsilon_(spec.norm_epsilon),
      in_(declare_in(params, name, spec, region)),
      out_(declare_out(params, name, spec, region)) {
  if (!spec.qk_norm) return;
  // Inside the region the heads of every rank contribute a partial gradient.
  const auto gain = [&](const char* part) {
    return &params.declare({.name = name + part,
                            .shape = {spec.heads.width},
                            .cut = whole(region.slice()),
                            .init = Init::kOnes,
                            .partial = true});
  };
  query_gain_ = gain(".q_norm.weight");
  key_gain_ = gain(".k_norm.weight");
}

ops::AttentionShape Attention::shape(const MicroBatch& batch) const {
  return {batch.sequences, batch.seq_len, heads_, 1 / std::sqrt(static_cast<double>(heads_.width)),
          batch.documents};
}

// Queries, keys and values of x after QK-norm and rotary embedding, in ctx.saved.
Tensor Attention::project(ExecContext& ctx, Tensor x, Tensor positions, Saved& saved) const {
  Tensor qkv = in_.forward(ctx, ctx.saved, x, saved.in);
  if (query_gain_) {
    saved.before_norm = qkv;
    saved.inv_rms =
        ctx.saved.take({x.rows(), heads_.heads + heads_.kv_heads}, accumulator_of(x.dtype));
    qkv = ctx.saved.take(qkv.shape, qkv.dtype);
    ops::head_norm(ctx.stream, {.y = qkv,
                                .inv_rms = saved.inv_rms,
                                .x = saved.before_norm,
                                .query_gain = query_gain_->value,
                                .key_gain = key_gain_->value,
                                .heads = heads_,
                                .epsilon = norm_epsilon_});
  }
  if (rope_table_) ops::rope(ctx.stream, qkv, positions, rope_table_, heads_, false);
  return qkv;
}

void Attention::mix(ExecContext& ctx, const MicroBatch& batch, Saved& saved) const {
  const Tensor qkv = saved.qkv;
  saved.mixed = ctx.saved.take({qkv.rows(), heads_.query()}, qkv.dtype);
  saved.lse = ctx.saved.take({qkv.rows(), heads_.heads}, accumulator_of(qkv.dtype));
  core_.forward(ctx, saved.mixed, saved.lse, qkv, batch.document_start, shape(batch));
}

// This rank's term of the output projection, reduced over all ranks.
Tensor Attention::join(ExecContext& ctx, Tensor mixed, Saved& saved) const {
  const Tensor partial = out_.forward(ctx, ctx.scratch, mixed, saved.out, region_.slice());
  return region_.leave(ctx, ctx.scratch, partial);
}

Tensor Attention::forward(ExecContext& ctx, Tensor x, const MicroBatch& batch, Recompute recompute,
                          Saved& saved) const {
  const bool again = region_.recomputes_enter(recompute);
  Arena& into = recompute == Recompute::kSelective || again ? ctx.scratch : ctx.saved;
  saved.qkv = project(ctx, region_.enter(ctx, into, x), batch.positions, saved);
  if (again) saved.in = {.own = x};
  mix(ctx, batch, saved);
  return join(ctx, saved.mixed, saved);
}

void Attention::restore_dropped(ExecContext& ctx, Tensor x, Saved& saved) const {
  saved.in = {.x = region_.enter(ctx, ctx.lasting(), x)};
}

Tensor Attention::backward(ExecContext& ctx, Tensor dy, const MicroBatch& batch,
                           const Saved& saved) const {
  const Tensor d = region_.leave_backward(ctx, dy);
  const Tensor dmixed = out_.backward_input(ctx, d);
  out_.backward_weight(ctx, d, dy, saved.out);
  const Tensor dqkv = ctx.lasting().take(saved.qkv.shape, dy.dtype);
  core_.backward(ctx,
                 {.dqkv = dqkv,
                  .dout = dmixed,
                  .out = saved.mixed,
                  .qkv = saved.qkv,
                  .lse = saved.lse,
                  .document_start = batch.document_start},
                 shape(batch));
  if (rope_table_) ops::rope(ctx.stream, dqkv, batch.positions, rope_table_, heads_, true);
  if (query_gain_) {
    const ops::Accumulate accumulate = Linear::gradient_accumulate(*query_gain_);
    require(Linear::gradient_accumulate(*key_gain_) == accumulate,
            "QK-norm's gains are used together");
    ops::head_norm_backward(ctx.stream, ctx.scratch,
                            {.dqkv = dqkv,
                             .dquery_gain = query_gain_->grad,
                             .dkey_gain = key_gain_->grad,
                             .x = saved.before_norm,
                             .query_gain = query_gain_->value,
                             .key_gain = key_gain_->value,
                             .inv_rms = saved.inv_rms,
                             .heads = heads_,
                             .accumulate = accumulate});
  }
  const Tensor x = entered(ctx, region_, saved.in);
  const Tensor dx = region_.start_enter_backward(ctx, in_.backward_input(ctx, dqkv));
  in_.backward_weight(ctx, dqkv, {.x = x});
  region_.finish(ctx);
  return dx;
}

Tensor Attention::decode(ExecContext& ctx, Tensor x, Tensor positions, std::int64_t first,
                         const KeyValueCache& cache) const {
  Saved saved;
  const Tensor h = region_.enter(ctx, ctx.scratch, x);
  const Tensor qkv = project(ctx, h, positions, saved);
  const Tensor mixed = ctx.scratch.take({h.rows(), heads_.query()}, x.dtype);
  ops::attention_cached(ctx.stream, ctx.scratch, mixed, qkv, cache.keys, cache.values, first,
                        heads_, 1 / std::sqrt(static_cast<double>(heads_.width)));
  return join(ctx, mixed, saved);
}

}  // namespace trireme
