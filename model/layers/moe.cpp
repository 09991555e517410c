#include "model/layers/moe.h"

#include "model/ops/elementwise.h"
#include "model/ops/grouped_bias.h"

namespace trireme {
namespace {

Weight& declare_router(ParamStore& params, const std::string& name, const MoeSpec& spec,
                       const Region& region) {
  return params.declare({.name = name + ".router.weight",
                         .shape = {spec.experts, spec.hidden},
                         .cut = whole(region.slice()),
                         .init_scale = spec.init_scale,
                         .decay = true});
}

Weight* declare_correction_bias(ParamStore& params, const std::string& name, const MoeSpec& spec,
                                const Region& region) {
  if (!spec.has_correction_bias) return nullptr;
  return &params.declare({.name = name + ".router.correction_bias",
                          .shape = {spec.experts},
                          .cut = whole(region.slice()),
                          .init = Init::kZeros,
                          .is_buffer = true});
}

MlpSpec shared_spec(const MoeSpec& spec) {
  return {.hidden = spec.hidden,
          .intermediate = spec.shared_intermediate,
          .activation = spec.activation,
          .init_scale = spec.init_scale,
          .down_init_scale = spec.down_init_scale};
}

Weight* declare_router_bias(ParamStore& params, const std::string& name, const MoeSpec& spec,
                            const Region& region) {
  if (!spec.bias) return nullptr;
  return &params.declare({.name = name + ".router.bias",
                          .shape = {spec.experts},
                          .cut = whole(region.slice()),
                          .init = Init::kZeros});
}

ExpertsSpec experts_spec(const MoeSpec& spec) {
  return {.hidden = spec.hidden,
          .count = spec.experts,
          .intermediate = spec.intermediate,
          .activation = spec.activation,
          .swiglu_limit = spec.swiglu_limit,
          .bias = spec.bias,
          .init_scale = spec.init_scale,
          .down_init_scale = spec.down_init_scale};
}

}  // namespace

Moe::Moe(ParamStore& params, const std::string& name, const MoeSpec& spec, Region& region,
         TokenExchange& exchange, SequenceRanks& sequence)
    : spec_(spec),
      region_(region),
      sequence_(sequence),
      router_weight_(declare_router(params, name, spec, region)),
      router_bias_(declare_router_bias(params, name, spec, region)),
      correction_bias_(declare_correction_bias(params, name, spec, region)),
      router_(router_weight_, router_bias_),
      experts_(params, name + ".experts", experts_spec(spec), region, exchange),
      entered_(region),
      shared_(spec.shared_intermediate == 0
                  ? std::nullopt
                  : std::optional<Mlp>(std::in_place, params, name + ".shared_experts",
                                       shared_spec(spec), entered_)) {}

void Moe::choose(ExecContext& ctx, Tensor x, const MicroBatch& batch, Saved& saved) const {
  const DType exact = accumulator_of(x.dtype);
  const std::int64_t tokens = x.rows(), experts = spec_.experts, top_k = spec_.routing.top_k;
  saved.logits = ctx.saved.take({tokens, experts}, exact);
  saved.routes = {.scores = ctx.saved.take({tokens, experts}, exact),
                  .weights = ctx.saved.take({tokens, top_k}, exact),
                  .experts = ctx.saved.take({tokens, top_k}, DType::kI32)};
  saved.rows = {.starts = ctx.saved.take({experts + 1}, DType::kI32),
                .pairs = ctx.saved.take({tokens * top_k}, DType::kI32),
                .row_of = ctx.saved.take({tokens, top_k}, DType::kI32)};
  ops::gemm(ctx.stream, saved.logits, x, router_weight_.value, {.transpose_b = true});
  if (router_bias_) {
    const Arena::Frame frame(ctx.scratch);
    const Tensor bias = ctx.scratch.take({experts}, exact);
    ops::cast(ctx.stream, bias, router_bias_->value);
    ops::grouped_bias(ctx.stream, saved.logits, bias, {});
  }
  ops::route(ctx.stream, saved.routes, saved.logits, spec_.routing,
             correction_bias_ ? correction_bias_->buffer : Tensor{});
  ops::order_by_expert(ctx.stream, saved.rows, saved.routes.experts);
  saved.counts = ctx.saved.take({1, experts}, DType::kF32);
  ops::count_choices(ctx.stream, saved.counts, saved.routes.experts);
  saved.loads = saved.counts;
  if (sequence_.are_several()) {
    saved.loads = ctx.saved.take(saved.counts.shape, DType::kF32);
    ops::copy(ctx.stream, saved.loads, saved.counts);
    sequence_.average(ctx.stream, saved.loads);
  }
  experts_.plan(ctx, saved.counts, saved.rows, saved.experts);
  saved.scale = batch.router_scale;
}

void Moe::report(ExecContext& ctx, const RouterSink& to, const Saved& saved) const {
  if (!to) return;
  ops::router_losses(ctx.stream, ctx.scratch, to.losses.row_slice(spec_.layer, 1), saved.loads,
                     saved.routes.scores, saved.logits, spec_.routing);
  const Tensor counts = to.counts.row_slice(spec_.layer, 1);
  ops::add(ctx.stream, counts, counts, saved.counts);
}

Tensor Moe::forward(ExecContext& ctx, Arena& into, Tensor x, const MicroBatch& batch,
                    Recompute recompute, Saved& saved) const {
  const bool again = region_.recomputes_enter(recompute);
  Arena& entered = drops_norms(recompute) || again ? ctx.scratch : ctx.saved;
  const Tensor all = region_.enter(ctx, entered, x);
  saved.in = again ? Linear::Saved{.own = x} : Linear::Saved{.x = all};
  choose(ctx, all, batch, saved);
  report(ctx, batch.routers, saved);
  Arena& passing = region_.splits_tokens() ? ctx.scratch : into;
  const Tensor partial = shared_ ? shared_->forward(ctx, passing, all, recompute, saved.shared)
                                 : passing.take(all.shape, x.dtype);
  experts_.enter(ctx, all, saved.rows, recompute < Recompute::kSelective, saved.experts);
  {
    const Arena::Frame frame(ctx.scratch);
    const Tensor results = experts_.leave(ctx, all, saved.rows, saved.experts);
    const Tensor routed = shared_ ? ctx.scratch.take(all.shape, x.dtype) : partial;
    ops::combine_rows(ctx.stream, routed, results, saved.routes.weights, saved.rows);
    if (shared_) ops::add(ctx.stream, partial, partial, routed);
  }
  return region_.leave(ctx, into, partial);
}

void Moe::restore(ExecContext& ctx, Tensor x, const MicroBatch& batch, Saved& saved) const {
  saved.in = {.x = region_.enter(ctx, ctx.saved, x)};
  choose(ctx, saved.in.x, batch, saved);
  experts_.enter(ctx, saved.in.x, saved.rows, /*saves_rows=*/true, saved.experts);
  if (shared_) shared_->restore(ctx, saved.in.x, saved.shared);
}

void Moe::restore_dropped(ExecContext& ctx, Tensor x, Recompute recompute, Saved& saved) const {
  saved.in = {.x = region_.enter(ctx, ctx.lasting(), x)};
  if (shared_) shared_->restore_dropped(ctx, saved.in.x, recompute, saved.shared);
}

Tensor Moe::backward(ExecContext& ctx, Tensor dy, const Saved& saved) const {
  const Tensor x = entered(ctx, region_, saved.in).x;
  const Tensor dall = region_.leave_backward(ctx, dy);
  const Tensor& weights = saved.routes.weights;
  const Tensor dweights = ctx.scratch.take(weights.shape, weights.dtype);
  const Experts::Gradients of_experts =
      experts_.backward_down(ctx, x, dall, weights, dweights, saved.rows, saved.experts);

  region_.sum(ctx, dweights);
  const Tensor dlogits = ctx.lasting().take(saved.logits.shape, dy.dtype);
  ops::route_backward(ctx.stream, dlogits, dweights, saved.logits, saved.routes, spec_.routing,
                      {.counts = saved.loads,
                       .balance = spec_.balance_loss,
                       .z_loss = spec_.z_loss,
                       .scale = saved.scale});
  Linear::Gradient of_router(dlogits);
  const Tensor dx = ctx.scratch.take(x.shape, dy.dtype);
  {
    const Arena::Frame frame(ctx.scratch);
    ops::combine_rows(ctx.stream, dx,
                      experts_.backward_up(ctx, of_experts, saved.rows, saved.experts), {},
                      saved.rows);
    // The gradient through the router is whole on every rank of the region, which sums.
    if (region_.slice().index == 0) {
      ops::add(ctx.stream, dx, dx, router_.backward_input(ctx, of_router));
    }
  }
  if (shared_) {
    Mlp::Saved shared = saved.shared;
    shared.up = {.x = x};  // the forward's is gone where the region is entered again
    ops::add(ctx.stream, dx, dx, shared_->backward(ctx, dall, shared));
  }
  const Tensor entering = region_.start_enter_backward(ctx, dx);
  experts_.backward_weight(ctx, x, of_experts, saved.rows, saved.experts);
  router_.backward_weight(ctx, of_router, {.x = x});
  // The choice has no gradient.
  if (correction_bias_ && correction_bias_->first_gradient())
    ops::zero(ctx.stream, correction_bias_->grad);
  region_.finish(ctx);
  return entering;
}

}  // namespace trireme
