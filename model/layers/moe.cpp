#include "model/layers/moe.h"

#include "model/base/error.h"
#include "model/ops/activation.h"
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

struct OwnExperts {
  std::int64_t first, count;
};
OwnExperts own_experts(const MoeSpec& spec, const TokenExchange& exchange) {
  const Slice slice = exchange.slice();
  require(spec.experts % slice.count == 0, spec.experts, " experts for ", slice.count, " ranks");
  const std::int64_t each = spec.experts / slice.count;
  return {slice.index * each, each};
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

Weight& declare_up(ParamStore& params, const std::string& name, const MoeSpec& spec,
                   const Region& region, OwnExperts own) {
  std::vector<ParamSpec> parts;
  for (std::int64_t e = own.first; e < own.first + own.count; ++e) {
    for (const char* part : {"gate", "up"}) {
      parts.push_back({.name = say(name, ".experts.", e, ".", part, ".weight"),
                       .shape = {spec.intermediate, spec.hidden},
                       .cut = {0, region.slice()},
                       .init_scale = spec.init_scale,
                       .decay = true,
                       .group = ParamGroup::kExperts});
    }
  }
  return params.declare(std::move(parts));
}

Weight& declare_down(ParamStore& params, const std::string& name, const MoeSpec& spec,
                     const Region& region, OwnExperts own) {
  std::vector<ParamSpec> parts;
  for (std::int64_t e = own.first; e < own.first + own.count; ++e) {
    parts.push_back({.name = say(name, ".experts.", e, ".down.weight"),
                     .shape = {spec.hidden, spec.intermediate},
                     .cut = {1, region.slice()},
                     .init_scale = spec.down_init_scale,
                     .decay = true,
                     .group = ParamGroup::kExperts});
  }
  return params.declare(std::move(parts));
}

Weight* declare_router_bias(ParamStore& params, const std::string& name, const MoeSpec& spec,
                            const Region& region) {
  if (!spec.bias) return nullptr;
  return &params.declare({.name = name + ".router.bias",
                          .shape = {spec.experts},
                          .cut = whole(region.slice()),
                          .init = Init::kZeros});
}

// Of the experts' projections `names`, each of `width` outputs.
Weight* declare_biases(ParamStore& params, const std::string& name, const MoeSpec& spec,
                       OwnExperts own, std::initializer_list<const char*> names, std::int64_t width,
                       Cut cut) {
  if (!spec.bias) return nullptr;
  std::vector<ParamSpec> parts;
  for (std::int64_t e = own.first; e < own.first + own.count; ++e) {
    for (const char* part : names) {
      parts.push_back({.name = say(name, ".experts.", e, ".", part, ".bias"),
                       .shape = {width},
                       .cut = cut,
                       .init = Init::kZeros,
                       .group = ParamGroup::kExperts});
    }
  }
  return &params.declare(std::move(parts));
}

// The order of the pairs, for a table with a row for each.
ops::ExpertRows by_pair(const ops::ExpertRows& rows) {
  return {.starts = rows.starts,
          .pairs = rows.pairs,
          .row_of = rows.row_of.reshaped({rows.pairs.count(), 1})};
}

}  // namespace

Moe::Moe(ParamStore& params, const std::string& name, const MoeSpec& spec, Region& region,
         TokenExchange& exchange)
    : spec_(spec),
      region_(region),
      exchange_(exchange),
      router_weight_(declare_router(params, name, spec, region)),
      router_bias_(declare_router_bias(params, name, spec, region)),
      correction_bias_(declare_correction_bias(params, name, spec, region)),
      router_(router_weight_, router_bias_),
      up_(declare_up(params, name, spec, region, own_experts(spec, exchange)),
          declare_biases(params, name, spec, own_experts(spec, exchange), {"gate", "up"},
                         spec.intermediate, {0, region.slice()}),
          own_experts(spec, exchange).count),
      down_(declare_down(params, name, spec, region, own_experts(spec, exchange)),
            declare_biases(params, name, spec, own_experts(spec, exchange), {"down"}, spec.hidden,
                           whole(region.slice())),
            own_experts(spec, exchange).count),
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
  exchange_.plan(ctx, saved.rounds, saved.counts, saved.rows);
  saved.scale = batch.router_scale;
}

void Moe::report(ExecContext& ctx, const RouterSink& to, const Saved& saved) const {
  if (!to) return;
  ops::router_losses(ctx.stream, ctx.scratch, to.losses.row_slice(spec_.layer, 1), saved.counts,
                     saved.routes.scores, saved.logits, spec_.routing);
  const Tensor counts = to.counts.row_slice(spec_.layer, 1);
  ops::add(ctx.stream, counts, counts, saved.counts);
}

// Rounds after the first. If there are none, one without rows takes the memory that is planned for
// them.
template <class Body>
void Moe::each_further_round(const Saved& saved, const Body& body) const {
  if (exchange_.is_alone()) return;
  const std::vector<ExpertRound>& rounds = saved.rounds;
  if (rounds.size() == 1) body(ExpertRound{.starts = rounds.front().starts.slice(0, 2)});
  for (std::size_t i = 1; i < rounds.size(); ++i) body(rounds[i]);
}

// Takes the memory of the largest round.
Tensor Moe::take_rows(Arena& arena, std::int64_t width, DType dtype, const Saved& saved,
                      const ExpertRound& round) const {
  return arena.take({exchange_.capacity(saved.rows.pairs.count()), width}, dtype)
      .row_slice(0, round.rows);
}

// The round's rows of tokens' `x`.
Tensor Moe::dispatched(ExecContext& ctx, Arena& into, Tensor x, const Saved& saved,
                       const ExpertRound& round) const {
  const auto gathered = [&](Arena& arena) {
    const Tensor rows = arena.take({saved.rows.pairs.count(), x.width()}, x.dtype);
    ops::gather_tokens(ctx.stream, rows, x, saved.rows);
    return rows;
  };
  if (exchange_.is_alone()) return gathered(into);
  const Tensor received = take_rows(into, x.width(), x.dtype, saved, round);
  const Arena::Frame frame(ctx.scratch);
  exchange_.dispatch(ctx.stream, received, gathered(ctx.scratch), round);
  return received;
}

Tensor Moe::activate(ExecContext& ctx, Arena& into, Tensor pre, const Saved& saved,
                     const ExpertRound& round) const {
  const Tensor act = take_rows(into, pre.width() / 2, pre.dtype, saved, round);
  ops::gate(ctx.stream, act, pre, spec_.activation, spec_.swiglu_limit);
  return act;
}

void Moe::enter_experts(ExecContext& ctx, Tensor x, bool saves_rows, Saved& saved) const {
  const ExpertRound& round = saved.rounds.front();
  saved.pre = take_rows(ctx.saved, up_.out(), x.dtype, saved, round);
  saved.dispatched = {};
  if (saves_rows && !exchange_.is_alone()) {
    saved.dispatched = dispatched(ctx, ctx.saved, x, saved, round);
    return up_.forward(ctx, saved.pre, saved.dispatched, round);
  }
  const Arena::Frame frame(ctx.scratch);
  up_.forward(ctx, saved.pre, dispatched(ctx, ctx.scratch, x, saved, round), round);
}

Tensor Moe::leave_experts(ExecContext& ctx, Tensor pre, const Saved& saved,
                          const ExpertRound& round) const {
  const Tensor act = activate(ctx, ctx.scratch, pre, saved, round);
  const Tensor y = take_rows(ctx.scratch, spec_.hidden, pre.dtype, saved, round);
  down_.forward(ctx, y, act, round, region_.slice());
  return y;
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
  enter_experts(ctx, all, recompute == Recompute::kNone, saved);
  {
    const Arena::Frame frame(ctx.scratch);
    Tensor results;
    if (!exchange_.is_alone()) {
      results = ctx.scratch.take({saved.rows.pairs.count(), spec_.hidden}, x.dtype);
    }
    each_further_round(saved, [&](const ExpertRound& round) {
      const Arena::Frame of_round(ctx.scratch);
      const Tensor pre = take_rows(ctx.scratch, up_.out(), x.dtype, saved, round);
      {
        const Arena::Frame of_rows(ctx.scratch);
        up_.forward(ctx, pre, dispatched(ctx, ctx.scratch, all, saved, round), round);
      }
      exchange_.send_back(ctx.stream, results, leave_experts(ctx, pre, saved, round), round);
    });
    const ExpertRound& first = saved.rounds.front();
    const Tensor y = leave_experts(ctx, saved.pre, saved, first);
    if (exchange_.is_alone()) {
      results = y;
    } else {
      exchange_.send_back(ctx.stream, results, y, first);
    }
    const Tensor routed = shared_ ? ctx.scratch.take(all.shape, x.dtype) : partial;
    ops::combine_rows(ctx.stream, routed, results, saved.routes.weights, saved.rows);
    if (shared_) ops::add(ctx.stream, partial, partial, routed);
  }
  return region_.leave(ctx, into, partial);
}

void Moe::restore(ExecContext& ctx, Tensor x, const MicroBatch& batch, Saved& saved) const {
  saved.in = {.x = region_.enter(ctx, ctx.saved, x)};
  choose(ctx, saved.in.x, batch, saved);
  enter_experts(ctx, saved.in.x, /*saves_rows=*/true, saved);
  if (shared_) shared_->restore(ctx, saved.in.x, saved.shared);
}

void Moe::restore_dropped(ExecContext& ctx, Tensor x, Saved& saved) const {
  saved.in = {.x = region_.enter(ctx, ctx.lasting(), x)};
  if (shared_) shared_->restore_dropped(ctx, saved.in.x, saved.shared);
}

// Until the gradient of the activation's input, which is returned in ctx.lasting().
Tensor Moe::backward_down(ExecContext& ctx, Tensor dy, Tensor pre, Tensor dweights,
                          const Returned& returned, const Saved& saved,
                          const ExpertRound& round) const {
  const Tensor drows = dispatched(ctx, ctx.lasting(), dy, saved, round);
  // The experts' outputs are not saved: their dot products with dy are those of the activation with
  // its gradient.
  const Tensor act = activate(ctx, ctx.lasting(), pre, saved, round);
  const Tensor dact = take_rows(ctx.scratch, down_.in(), dy.dtype, saved, round);
  down_.backward_input(ctx, dact, drows, round);
  ops::RowWeights weights{saved.routes.weights, saved.rows.pairs};
  if (exchange_.is_alone()) {
    ops::weigh_rows_backward(ctx.stream, dweights, act, dact, weights.weights, saved.rows);
    down_.add_bias_dots(ctx, dweights, drows, weights.pairs, round, region_.slice());
  } else {
    const Tensor all = weights.weights.reshaped({saved.rows.pairs.count(), 1});
    weights = {take_rows(ctx.lasting(), 1, all.dtype, saved, round), {}};
    const Arena::Frame frame(ctx.scratch);
    const Tensor sent = ctx.scratch.take(all.shape, all.dtype);
    const Tensor products = take_rows(ctx.scratch, 1, all.dtype, saved, round);
    ops::gather_tokens(ctx.stream, sent, all, by_pair(saved.rows));
    exchange_.dispatch(ctx.stream, weights.weights, sent, round);
    ops::weigh_rows_backward(ctx.stream, products, act, dact, weights.weights, {});
    down_.add_bias_dots(ctx, products, drows, {}, round, region_.slice());
    exchange_.send_back(ctx.stream, returned.dweights, products, round);
  }
  down_.backward_weight(ctx, drows, act, round, weights);
  const Tensor dpre = take_rows(ctx.lasting(), up_.out(), dy.dtype, saved, round);
  ops::gate_backward(ctx.stream, dpre, dact, pre, spec_.activation, spec_.swiglu_limit);
  return dpre;
}

// Returns the gradients of this rank's rows, on several ranks those that have come back so far.
Tensor Moe::backward_up(ExecContext& ctx, Tensor dpre, const Returned& returned, const Saved& saved,
                        const ExpertRound& round) const {
  const Tensor dx = take_rows(ctx.scratch, spec_.hidden, dpre.dtype, saved, round);
  up_.backward_input(ctx, dx, dpre, round);
  if (exchange_.is_alone()) return dx;
  exchange_.send_back(ctx.stream, returned.dx, dx, round);
  return returned.dx;
}

// Weight gradients of these rounds are not deferred: their rows are in scratch.
void Moe::backward_further(ExecContext& ctx, Tensor x, Tensor dy, const Returned& returned,
                           const Saved& saved) const {
  each_further_round(saved, [&](const ExpertRound& round) {
    const Arena::Frame frame(ctx.scratch);
    ExecContext now{ctx.stream, ctx.scratch, ctx.scratch};
    const Tensor pre = take_rows(now.scratch, up_.out(), dy.dtype, saved, round);
    const Tensor rows = dispatched(now, now.scratch, x, saved, round);
    up_.forward(now, pre, rows, round);
    const Tensor dpre = backward_down(now, dy, pre, {}, returned, saved, round);
    backward_up(now, dpre, returned, saved, round);
    up_.backward_weight(now, dpre, rows, round);
  });
}

Tensor Moe::backward(ExecContext& ctx, Tensor dy, const Saved& saved) const {
  const Tensor x = entered(ctx, region_, saved.in);
  const Tensor dall = region_.leave_backward(ctx, dy);
  const Tensor& weights = saved.routes.weights;
  const Tensor dweights = ctx.scratch.take(weights.shape, weights.dtype);
  const ExpertRound& first = saved.rounds.front();
  Returned returned;
  if (!exchange_.is_alone()) {
    returned.dx = ctx.scratch.take({weights.count(), spec_.hidden}, dy.dtype);
    returned.dweights = ctx.scratch.take({weights.count(), 1}, weights.dtype);
  }
  backward_further(ctx, x, dall, returned, saved);
  const Tensor dpre = backward_down(ctx, dall, saved.pre, dweights, returned, saved, first);
  if (!exchange_.is_alone()) {
    ops::combine_rows(ctx.stream, dweights.reshaped({weights.count(), 1}), returned.dweights, {},
                      by_pair(saved.rows));
  }

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
    ops::combine_rows(ctx.stream, dx, backward_up(ctx, dpre, returned, saved, first), {},
                      saved.rows);
    // The gradient through the router is whole on every rank of the region, which sums.
    if (region_.slice().index == 0) {
      ops::add(ctx.stream, dx, dx, router_.backward_input(ctx, dlogits));
    }
  }
  if (shared_) {
    Mlp::Saved shared = saved.shared;
    shared.up = {.x = x};  // the forward's is gone where the region is entered again
    ops::add(ctx.stream, dx, dx, shared_->backward(ctx, dall, shared));
  }
  const Tensor entering = region_.start_enter_backward(ctx, dx);
  const Tensor rows =
      saved.dispatched ? saved.dispatched : dispatched(ctx, ctx.lasting(), x, saved, first);
  up_.backward_weight(ctx, dpre, rows, first);
  router_.backward_weight(ctx, dlogits, {.x = x});
  // The choice has no gradient.
  if (correction_bias_ && correction_bias_->first_gradient())
    ops::zero(ctx.stream, correction_bias_->grad);
  region_.finish(ctx);
  return entering;
}

}  // namespace trireme
