#include "model/layers/moe.h"

#include "model/base/error.h"
#include "model/ops/activation.h"
#include "model/ops/elementwise.h"

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

Weight* declare_router_bias(ParamStore& params, const std::string& name, const MoeSpec& spec,
                            const Region& region) {
  if (!spec.has_router_bias) return nullptr;
  return &params.declare({.name = name + ".router.bias",
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

Weight& declare_up(ParamStore& params, const std::string& name, const MoeSpec& spec,
                   const Region& region) {
  std::vector<ParamSpec> parts;
  for (std::int64_t e = 0; e < spec.experts; ++e) {
    for (const char* part : {"gate", "up"}) {
      parts.push_back({.name = say(name, ".experts.", e, ".", part, ".weight"),
                       .shape = {spec.intermediate, spec.hidden},
                       .cut = {0, region.slice()},
                       .init_scale = spec.init_scale,
                       .decay = true});
    }
  }
  return params.declare(std::move(parts));
}

Weight& declare_down(ParamStore& params, const std::string& name, const MoeSpec& spec,
                     const Region& region) {
  std::vector<ParamSpec> parts;
  for (std::int64_t e = 0; e < spec.experts; ++e) {
    parts.push_back({.name = say(name, ".experts.", e, ".down.weight"),
                     .shape = {spec.hidden, spec.intermediate},
                     .cut = {1, region.slice()},
                     .init_scale = spec.down_init_scale,
                     .decay = true});
  }
  return params.declare(std::move(parts));
}

}  // namespace

Moe::Moe(ParamStore& params, const std::string& name, const MoeSpec& spec, Region& region)
    : spec_(spec),
      region_(region),
      router_weight_(declare_router(params, name, spec, region)),
      router_(router_weight_, nullptr),
      router_bias_(declare_router_bias(params, name, spec, region)),
      up_(declare_up(params, name, spec, region), spec.experts),
      down_(declare_down(params, name, spec, region), spec.experts),
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
  ops::route(ctx.stream, saved.routes, saved.logits, spec_.routing,
             router_bias_ ? router_bias_->buffer : Tensor{});
  ops::order_by_expert(ctx.stream, saved.rows, saved.routes.experts);
  saved.counts = ctx.saved.take({1, experts}, DType::kF32);
  ops::count_choices(ctx.stream, saved.counts, saved.routes.experts);
  saved.scale = batch.router_scale;
}

void Moe::report(ExecContext& ctx, const RouterSink& to, const Saved& saved) const {
  if (!to) return;
  ops::router_losses(ctx.stream, ctx.scratch, to.losses.row_slice(spec_.layer, 1), saved.counts,
                     saved.routes.scores, saved.logits, spec_.routing);
  const Tensor counts = to.counts.row_slice(spec_.layer, 1);
  ops::add(ctx.stream, counts, counts, saved.counts);
}

Tensor Moe::gathered(ExecContext& ctx, Arena& into, Tensor x, const Saved& saved) const {
  const Tensor rows = into.take({saved.rows.pairs.count(), x.width()}, x.dtype);
  ops::gather_tokens(ctx.stream, rows, x, saved.rows);
  return rows;
}

Tensor Moe::activate(ExecContext& ctx, Arena& into, Tensor pre) const {
  const Tensor act = into.take({pre.rows(), pre.width() / 2}, pre.dtype);
  ops::gate(ctx.stream, act, pre, spec_.activation);
  return act;
}

void Moe::enter_experts(ExecContext& ctx, Tensor x, Saved& saved) const {
  saved.pre = ctx.saved.take({saved.rows.pairs.count(), up_.out()}, x.dtype);
  const Arena::Frame frame(ctx.scratch);
  up_.forward(ctx, saved.pre, gathered(ctx, ctx.scratch, x, saved), saved.rows.starts);
}

Tensor Moe::forward(ExecContext& ctx, Arena& into, Tensor x, const MicroBatch& batch,
                    Recompute recompute, Saved& saved) const {
  const bool again = region_.recomputes_enter(recompute);
  Arena& entered = again || recompute == Recompute::kSelective ? ctx.scratch : ctx.saved;
  const Tensor all = region_.enter(ctx, entered, x);
  saved.in = again ? Linear::Saved{.own = x} : Linear::Saved{.x = all};
  choose(ctx, all, batch, saved);
  report(ctx, batch.routers, saved);
  Arena& passing = region_.splits_tokens() ? ctx.scratch : into;
  const Tensor partial = shared_ ? shared_->forward(ctx, passing, all, recompute, saved.shared)
                                 : passing.take(all.shape, x.dtype);
  enter_experts(ctx, all, saved);
  {
    const Arena::Frame frame(ctx.scratch);
    const Tensor act = activate(ctx, ctx.scratch, saved.pre);
    const Tensor y = ctx.scratch.take({act.rows(), spec_.hidden}, x.dtype);
    down_.forward(ctx, y, act, saved.rows.starts);
    const Tensor routed = shared_ ? ctx.scratch.take(all.shape, x.dtype) : partial;
    ops::combine_rows(ctx.stream, routed, y, saved.routes.weights, saved.rows);
    if (shared_) ops::add(ctx.stream, partial, partial, routed);
  }
  return region_.leave(ctx, into, partial);
}

void Moe::restore(ExecContext& ctx, Tensor x, const MicroBatch& batch, Saved& saved) const {
  saved.in = {.x = region_.enter(ctx, ctx.saved, x)};
  choose(ctx, saved.in.x, batch, saved);
  enter_experts(ctx, saved.in.x, saved);
  if (shared_) shared_->restore(ctx, saved.in.x, saved.shared);
}

void Moe::restore_dropped(ExecContext& ctx, Tensor x, Saved& saved) const {
  saved.in = {.x = region_.enter(ctx, ctx.lasting(), x)};
  if (shared_) shared_->restore_dropped(ctx, saved.in.x, saved.shared);
}

Tensor Moe::backward(ExecContext& ctx, Tensor dy, const Saved& saved) const {
  const Tensor& starts = saved.rows.starts;
  const Tensor x = entered(ctx, region_, saved.in);
  const Tensor d = region_.leave_backward(ctx, dy);
  const Tensor drows = gathered(ctx, ctx.lasting(), d, saved);
  // The experts' outputs are not saved: their dot products with dy are those of the activation with
  // its gradient.
  const Tensor act = activate(ctx, ctx.lasting(), saved.pre);
  const Tensor dact = down_.backward_input(ctx, drows, starts);
  const Tensor dweights = ctx.scratch.take(saved.routes.weights.shape, saved.routes.weights.dtype);
  ops::weigh_rows_backward(ctx.stream, dweights, act, dact, saved.routes.weights, saved.rows);
  down_.backward_weight(ctx, drows, act, starts);
  const Tensor dpre = ctx.lasting().take(saved.pre.shape, dy.dtype);
  ops::gate_backward(ctx.stream, dpre, dact, saved.pre, spec_.activation);

  region_.sum(ctx, dweights);
  const Tensor dlogits = ctx.lasting().take(saved.logits.shape, dy.dtype);
  ops::route_backward(ctx.stream, dlogits, dweights, saved.logits, saved.routes, spec_.routing,
                      {.counts = saved.counts,
                       .balance = spec_.balance_loss,
                       .z_loss = spec_.z_loss,
                       .scale = saved.scale});
  const Tensor dx = ctx.scratch.take(x.shape, dy.dtype);
  {
    const Arena::Frame frame(ctx.scratch);
    ops::combine_rows(ctx.stream, dx, up_.backward_input(ctx, dpre, starts), {}, saved.rows);
    // The gradient through the router is whole on every rank of the region, which sums.
    if (region_.slice().index == 0) {
      ops::add(ctx.stream, dx, dx, router_.backward_input(ctx, dlogits));
    }
  }
  if (shared_) {
    Mlp::Saved shared = saved.shared;
    shared.up = {.x = x};  // the forward's is gone where the region is entered again
    ops::add(ctx.stream, dx, dx, shared_->backward(ctx, d, shared));
  }
  const Tensor entering = region_.start_enter_backward(ctx, dx);
  up_.backward_weight(ctx, dpre, gathered(ctx, ctx.lasting(), x, saved), starts);
  router_.backward_weight(ctx, dlogits, {.x = x});
  // The choice has no gradient.
  if (router_bias_ && router_bias_->first_gradient()) ops::zero(ctx.stream, router_bias_->grad);
  region_.finish(ctx);
  return entering;
}

}  // namespace trireme
