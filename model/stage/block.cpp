#include "model/stage/block.h"

#include <cmath>
#include <utility>

#include "model/base/philox.h"
#include "model/device/recomputed_ops.h"
#include "model/device/tuning.h"
#include "model/ops/elementwise.h"

namespace trireme {
namespace {

double residual_scale(const ModelConfig& c) {
  const double depth = 2.0 * static_cast<double>(c.num_hidden_layers);
  return c.scale_residual_init ? c.initializer_range / std::sqrt(depth) : c.initializer_range;
}

QkNorm qk_norm(const ModelConfig& c) {
  if (!c.qk_norm) return QkNorm::kNone;
  return c.qk_norm_by_head ? QkNorm::kHead : QkNorm::kProjection;
}

// The same masks whatever the layout: a place's key is of its name.
ops::Dropout dropout_at(const std::string& name, double rate) {
  return {.rate = rate, .key = random_key(0, name)};
}

AttentionSpec attention_spec(const ModelConfig& c, const std::string& name,
                             const Block::Spec& spec) {
  return {.hidden = c.hidden_size,
          .heads = {c.num_attention_heads, c.num_key_value_heads, c.head_dim},
          .scale = c.attention_scale(),
          .soft_cap = c.attn_logit_softcapping,
          .window = spec.layer.window,
          .rope_interleaved = c.rope_interleaved,
          .qkv_bias = c.attention_bias,
          .output_bias = c.attention_output_bias,
          .sinks = c.attention_sinks,
          .qk_norm = qk_norm(c),
          .norm_epsilon = c.norm_eps,
          .norm_gain_offset = c.norm_gain_offset,
          .init_scale = c.initializer_range,
          .output_init_scale = residual_scale(c),
          .precision = spec.precision,
          .dropout = dropout_at(name, spec.dropout.attention)};
}

MlpSpec mlp_spec(const ModelConfig& c, MatmulPrecision precision) {
  return {.hidden = c.hidden_size,
          .intermediate = c.intermediate_size,
          .activation = c.activation,
          .gated = c.gated_mlp,
          .bias = c.mlp_bias,
          .init_scale = c.initializer_range,
          .down_init_scale = residual_scale(c),
          .precision = precision};
}

MoeSpec moe_spec(const ModelConfig& c, std::int64_t layer) {
  return {.hidden = c.hidden_size,
          .experts = c.num_experts,
          .intermediate = c.moe_intermediate_size,
          .shared_intermediate = c.n_shared_experts * c.moe_intermediate_size,
          .activation = c.activation,
          .swiglu_limit = c.swiglu_limit,
          .bias = c.expert_bias,
          .routing = {.score = c.scoring_func == "sigmoid" ? ops::RouterScore::kSigmoid
                                                           : ops::RouterScore::kSoftmax,
                      .top_k = c.num_experts_per_tok,
                      .renormalize = c.norm_topk_prob,
                      .scale = c.routed_scaling_factor,
                      .groups = c.n_group,
                      .top_groups = c.topk_group,
                      .in_turn = c.router_force_load_balancing},
          .has_correction_bias = c.correction_bias,
          .balance_loss = c.router_aux_loss_coef / static_cast<double>(layers_with_experts(c)),
          .z_loss = c.router_z_loss_coef / static_cast<double>(layers_with_experts(c)),
          .layer = layer,
          .init_scale = c.initializer_range,
          .down_init_scale = residual_scale(c)};
}

// The norm of a branch's input or output, if the model has it there.
std::optional<Norm> branch_norm(ParamStore& params, const std::string& name, const ModelConfig& c,
                                NormPlacement other, const Region& region) {
  if (c.norm_placement == other) return std::nullopt;
  return Norm(params, name, norm_spec(c), region);
}

constexpr NormPlacement kNotBefore = NormPlacement::kPost, kNotAfter = NormPlacement::kPre;

// A branch's input, in `norms` if there is a norm, which measures it if the branch quantizes it.
MeasuredTensor enter_branch(ExecContext& ctx, Arena& norms, const std::optional<Norm>& norm,
                            Tensor x, bool measures, Norm::Saved& saved) {
  return norm ? norm->forward(ctx, norms, x, saved, measures) : MeasuredTensor(x);
}
Tensor restored(ExecContext& ctx, const std::optional<Norm>& norm, Tensor x,
                const Norm::Saved& saved) {
  return norm ? norm->again(ctx, saved) : x;
}

// dx = the gradient of the residual stream before the branch; `d` is that of the branch's input.
void enter_branch_backward(ExecContext& ctx, Tensor dx, const std::optional<Norm>& norm, Tensor d,
                           Tensor dresidual, const Norm::Saved& saved) {
  if (norm) {
    norm->backward(ctx, dx, d, dresidual, saved);
  } else {
    ops::add(ctx.stream, dx, d, dresidual);
  }
}

// For a branch's output, which the backward of its norm reads again.
Arena& output_arena(ExecContext& ctx, const std::optional<Norm>& post_norm) {
  return post_norm ? ctx.saved : ctx.scratch;
}

}  // namespace

NormSpec norm_spec(const ModelConfig& c) {
  return {.kind = c.norm,
          .width = c.hidden_size,
          .epsilon = c.norm_eps,
          .gain_offset = c.norm_gain_offset};
}

Block::Block(ParamStore& params, const std::string& name, const ModelConfig& config,
             const Spec& spec, Seams seams, const Tensor& rope_table)
    : recompute_(spec.recompute),
      residual_multiplier_(config.residual_multiplier),
      region_(seams.region),
      attention_norm_(
          branch_norm(params, name + ".attention_norm", config, kNotBefore, seams.region)),
      attention_(params, name + ".attention", attention_spec(config, name + ".attention", spec),
                 seams.region, seams.attention, rope_table),
      attention_end_{
          branch_norm(params, name + ".attention_post_norm", config, kNotAfter, seams.region),
          dropout_at(name + ".attention.o", spec.dropout.residual)},
      mlp_norm_(branch_norm(params, name + ".mlp_norm", config, kNotBefore, seams.region)),
      mlp_(spec.layer.has_experts
               ? std::nullopt
               : std::optional<Mlp>(std::in_place, params, name + ".mlp",
                                    mlp_spec(config, spec.precision), seams.region)),
      moe_(spec.layer.has_experts ? std::optional<Moe>(std::in_place, params, name + ".mlp",
                                                       moe_spec(config, spec.number), seams.region,
                                                       seams.experts, seams.sequence)
                                  : std::nullopt),
      mlp_end_{branch_norm(params, name + ".mlp_post_norm", config, kNotAfter, seams.region),
               dropout_at(name + ".mlp.down", spec.dropout.residual)} {}

void Block::take_codes(Arena& arena) {
  attention_.take_codes(arena);
  if (mlp_) mlp_->take_codes(arena);
}

void Block::update_codes(ExecContext& ctx) const {
  attention_.update_codes(ctx);
  if (mlp_) mlp_->update_codes(ctx);
}

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

Tensor Block::own_words(const MicroBatch& batch) const {
  return batch.dropout_words ? region_.own_tokens(batch.dropout_words) : Tensor();
}

// What is added to the residual stream for a branch's output.
Tensor Block::end_branch(ExecContext& ctx, Tensor y, const BranchEnd& end, Tensor words,
                         Norm::Saved& saved) const {
  if (end.norm) y = end.norm->forward(ctx, ctx.scratch, y, saved).values;
  if (const ops::Dropout how = end.dropout.with(words)) ops::dropout(ctx.stream, y, y, how);
  if (residual_multiplier_ != 1) ops::scale(ctx.stream, y, y, residual_multiplier_);
  return y;
}

// The gradient of a branch's output; dy itself, or in ctx.lasting().
Tensor Block::end_branch_backward(ExecContext& ctx, Tensor dy, const BranchEnd& end, Tensor words,
                                  const Norm::Saved& saved) const {
  if (residual_multiplier_ != 1) {
    const Tensor scaled = ctx.lasting().take(dy.shape, dy.dtype);
    ops::scale(ctx.stream, scaled, dy, residual_multiplier_);
    dy = scaled;
  }
  if (const ops::Dropout how = end.dropout.with(words)) {
    const Tensor kept = residual_multiplier_ != 1 ? dy : ctx.lasting().take(dy.shape, dy.dtype);
    ops::dropout(ctx.stream, kept, dy, how);
    dy = kept;
  }
  if (!end.norm) return dy;
  const Tensor dbranch = ctx.lasting().take(dy.shape, dy.dtype);
  end.norm->backward(ctx, dbranch, dy, {}, saved);
  return dbranch;
}

bool Block::adds_in_product(const ExecContext& ctx, const BranchEnd& end, Tensor words) const {
  return tuning_of(ctx.stream.device()).adds_residual_in_product && region_.slice().count == 1 &&
         !end.norm && !end.dropout.with(words) && residual_multiplier_ == 1;
}

// The MLP's input, if saved.mid is computed.
MeasuredTensor Block::enter_mlp(ExecContext& ctx, Arena& norms, bool measures, Saved& saved) const {
  return enter_branch(ctx, norms, mlp_norm_, saved.mid, measures, saved.mlp_norm);
}

// The residual addition after attention, and the MLP's input.
MeasuredTensor Block::enter_mlp(ExecContext& ctx, Arena& norms, Tensor x, Tensor mixed,
                                bool measures, Saved& saved) const {
  if (mlp_norm_) {
    const MeasuredTensor h = mlp_norm_->forward_add(ctx, norms, x, mixed, saved.mlp_norm, measures);
    saved.mid = saved.mlp_norm.x;
    return h;
  }
  saved.mid = ctx.saved.take(x.shape, x.dtype);
  ops::add(ctx.stream, saved.mid, x, mixed);
  return saved.mid;
}

MeasuredTensor Block::until_mlp(ExecContext& ctx, Arena& norms, Tensor x, const MicroBatch& batch,
                                Recompute recompute, Saved& saved) const {
  saved.x = x;
  const MeasuredTensor h = enter_branch(ctx, norms, attention_norm_, x,
                                        attention_.quantizes_input(), saved.attention_norm);
  const Tensor words = own_words(batch);
  Residual residual;
  if (adds_in_product(ctx, attention_end_, words)) {
    residual = {x, ctx.saved.take(x.shape, x.dtype)};
    saved.mid = residual.sum;
  }
  const Tensor mixed = attention_.forward(ctx, output_arena(ctx, attention_end_.norm), h, batch,
                                          recompute, saved.attention, residual);
  const bool measures = mlp_ && mlp_->quantizes_input(ctx, x.rows(), recompute);
  if (residual) return enter_mlp(ctx, norms, measures, saved);
  return enter_mlp(ctx, norms, x,
                   end_branch(ctx, mixed, attention_end_, words, saved.attention_post_norm),
                   measures, saved);
}

Tensor Block::mlp_forward(ExecContext& ctx, Arena& into, const MeasuredTensor& x,
                          const MicroBatch& batch, Recompute recompute, Saved& saved,
                          const Residual& residual) const {
  return moe_ ? moe_->forward(ctx, into, x.values, batch, recompute, saved.moe)
              : mlp_->forward(ctx, into, x, recompute, saved.mlp, residual);
}

void Block::compute(ExecContext& ctx, Tensor y, Tensor x, const MicroBatch& batch,
                    Recompute recompute, Saved& saved) const {
  // If layers recompute for a backward that follows immediately, they save the region's output
  // rather than its input.
  const bool dropped =
      drops_norms(recompute) || (recompute == Recompute::kFull && region_.splits_tokens());
  const MeasuredTensor h =
      until_mlp(ctx, dropped ? ctx.scratch : ctx.saved, x, batch, recompute, saved);
  const Tensor words = own_words(batch);
  Residual residual;
  if (mlp_ && adds_in_product(ctx, mlp_end_, words)) residual = {saved.mid, y};
  const Tensor out =
      mlp_forward(ctx, output_arena(ctx, mlp_end_.norm), h, batch, recompute, saved, residual);
  if (residual) return;
  ops::add(ctx.stream, y, saved.mid, end_branch(ctx, out, mlp_end_, words, saved.mlp_post_norm));
}

void Block::restore(ExecContext& ctx, const MicroBatch& batch, Saved& saved) const {
  const RecomputedOps recomputed(ctx.stream);
  if (drops_norms(recompute_)) {
    attention_.restore_dropped(ctx, restored(ctx, attention_norm_, saved.x, saved.attention_norm),
                               saved.attention);
    const Tensor h = restored(ctx, mlp_norm_, saved.mid, saved.mlp_norm);
    if (moe_) {
      moe_->restore_dropped(ctx, h, recompute_, saved.moe);
    } else {
      mlp_->restore_dropped(ctx, h, recompute_, saved.mlp);
    }
  }
  if (recompute_ == Recompute::kFull) {
    ExecContext inner{ctx.stream, ctx.lasting(), ctx.scratch};
    const MeasuredTensor h = until_mlp(inner, inner.saved, saved.x, batch, Recompute::kFull, saved);
    if (mlp_end_.norm) {
      MicroBatch again = batch;
      again.routers = {};  // the forward has reported
      const Tensor out = mlp_forward(inner, inner.saved, h, again, Recompute::kFull, saved);
      mlp_end_.norm->forward(inner, inner.scratch, out, saved.mlp_post_norm);
    } else if (moe_) {
      moe_->restore(inner, h.values, batch, saved.moe);
    } else {
      mlp_->restore(inner, h, saved.mlp);
    }
  }
}

void Block::backward(ExecContext& ctx, Tensor dx, Tensor dy, const MicroBatch& batch,
                     Saved& saved) const {
  const Arena::Frame frame(ctx.scratch);
  restore(ctx, batch, saved);
  const Tensor dmid = ctx.lasting().take(dy.shape, dy.dtype);
  {
    const Arena::Frame of_mlp(ctx.scratch);
    const Tensor dout =
        end_branch_backward(ctx, dy, mlp_end_, own_words(batch), saved.mlp_post_norm);
    const Tensor dh =
        moe_ ? moe_->backward(ctx, dout, saved.moe) : mlp_->backward(ctx, dout, saved.mlp);
    enter_branch_backward(ctx, dmid, mlp_norm_, dh, dy, saved.mlp_norm);
  }
  const Tensor dout =
      end_branch_backward(ctx, dmid, attention_end_, own_words(batch), saved.attention_post_norm);
  enter_branch_backward(ctx, dx, attention_norm_,
                        attention_.backward(ctx, dout, batch, saved.attention), dmid,
                        saved.attention_norm);
}

void Block::decode(ExecContext& ctx, Tensor y, Tensor x, Tensor positions, std::int64_t first,
                   const KeyValueCache& cache) const {
  const Arena::Frame frame(ctx.scratch);
  ExecContext inner{ctx.stream, ctx.scratch, ctx.scratch};
  Saved unused;
  const Tensor h =
      enter_branch(inner, ctx.scratch, attention_norm_, x, false, unused.attention_norm).values;
  const Tensor mixed = attention_.decode(inner, h, positions, first, cache);
  const MeasuredTensor h2 = enter_mlp(
      inner, ctx.scratch, x,
      end_branch(inner, mixed, attention_end_, {}, unused.attention_post_norm), false, unused);
  const Tensor out = mlp_forward(inner, ctx.scratch, h2, {}, Recompute::kNone, unused);
  ops::add(ctx.stream, y, unused.mid, end_branch(inner, out, mlp_end_, {}, unused.mlp_post_norm));
}

}  // namespace trireme
