#include "model/layers/mlp.h"

#include "model/ops/activation.h"

namespace trireme {
namespace {

Linear declare_up(ParamStore& params, const std::string& name, const MlpSpec& spec,
                  const Region& region) {
  const Cut rows{0, region.slice()};
  std::vector<ParamSpec> weights;
  std::vector<ParamSpec> biases;
  const auto add = [&](const char* part) {
    weights.push_back({.name = name + part + ".weight",
                       .shape = {spec.intermediate, spec.hidden},
                       .cut = rows,
                       .init_scale = spec.init_scale,
                       .decay = true});
    biases.push_back({.name = name + part + ".bias",
                      .shape = {spec.intermediate},
                      .cut = rows,
                      .init = Init::kZeros});
  };
  if (spec.gated) add(".gate");
  add(".up");
  Weight& weight = params.declare(std::move(weights));
  return {weight, spec.bias ? &params.declare(std::move(biases)) : nullptr, spec.precision};
}

Linear declare_down(ParamStore& params, const std::string& name, const MlpSpec& spec,
                    const Region& region) {
  Weight& weight = params.declare({.name = name + ".down.weight",
                                   .shape = {spec.hidden, spec.intermediate},
                                   .cut = {1, region.slice()},
                                   .init_scale = spec.down_init_scale,
                                   .decay = true});
  return {weight,
          spec.bias ? &params.declare({.name = name + ".down.bias",
                                       .shape = {spec.hidden},
                                       .cut = whole(region.slice()),
                                       .init = Init::kZeros,
                                       .partial = region.splits_tokens()})
                    : nullptr,
          spec.precision};
}

}  // namespace

Mlp::Mlp(ParamStore& params, const std::string& name, const MlpSpec& spec, Region& region)
    : region_(region),
      activation_(spec.activation),
      gated_(spec.gated),
      up_(declare_up(params, name, spec, region)),
      down_(declare_down(params, name, spec, region)) {}

Tensor Mlp::activate(ExecContext& ctx, Arena& into, Tensor pre) const {
  const Tensor act = into.take({pre.rows(), gated_ ? pre.width() / 2 : pre.width()}, pre.dtype);
  if (gated_) {
    ops::gate(ctx.stream, act, pre, activation_);
  } else {
    ops::activate(ctx.stream, act, pre, activation_);
  }
  return act;
}

Tensor Mlp::forward(ExecContext& ctx, Arena& into, Tensor x, Recompute recompute,
                    Saved& saved) const {
  const bool again = region_.recomputes_enter(recompute);
  const bool selective = recompute == Recompute::kSelective;
  Arena& entered = selective || again ? ctx.scratch : ctx.saved;
  saved.pre = up_.forward(ctx, ctx.saved, region_.enter(ctx, entered, x), saved.up);
  if (again) saved.up = {.own = x, .inverse_scale = saved.up.inverse_scale};
  const Tensor act = activate(ctx, selective ? ctx.scratch : ctx.saved, saved.pre);
  Arena& passing = region_.splits_tokens() ? ctx.scratch : into;
  const Tensor partial = down_.forward(ctx, passing, act, saved.down, region_.slice());
  return region_.leave(ctx, into, partial);
}

void Mlp::restore(ExecContext& ctx, Tensor x, Saved& saved) const {
  saved.pre = up_.forward(ctx, ctx.saved, region_.enter(ctx, ctx.saved, x), saved.up);
  saved.down = {.x = activate(ctx, ctx.saved, saved.pre)};
}

void Mlp::restore_dropped(ExecContext& ctx, Tensor x, Saved& saved) const {
  saved.up.x = region_.enter(ctx, ctx.lasting(), x);
  saved.down.x = activate(ctx, ctx.lasting(), saved.pre);
}

Tensor Mlp::backward(ExecContext& ctx, Tensor dy, const Saved& saved) const {
  const Tensor d = region_.leave_backward(ctx, dy);
  Linear::Gradient of_down(d, dy);
  const Tensor dact = down_.backward_input(ctx, of_down);
  down_.backward_weight(ctx, of_down, saved.down);
  Arena& into = up_.gradient_arena(ctx);
  const bool in_place = !gated_ && &into == &ctx.scratch;
  const Tensor dpre = in_place ? dact : into.take(saved.pre.shape, dy.dtype);
  if (gated_) {
    ops::gate_backward(ctx.stream, dpre, dact, saved.pre, activation_);
  } else {
    ops::activate_backward(ctx.stream, dpre, dact, saved.pre, activation_);
  }
  const Linear::Saved up = entered(ctx, region_, saved.up);
  Linear::Gradient of_up(dpre);
  const Tensor dx = region_.start_enter_backward(ctx, up_.backward_input(ctx, of_up));
  up_.backward_weight(ctx, of_up, up);
  region_.finish(ctx);
  return dx;
}

}  // namespace trireme
