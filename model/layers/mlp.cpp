#include "model/layers/mlp.h"

#include <algorithm>

#include "model/device/recomputed_ops.h"
#include "model/device/tuning.h"
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

void Mlp::take_codes(Arena& arena) {
  up_.take_codes(arena);
  down_.take_codes(arena);
}

void Mlp::update_codes(ExecContext& ctx) const {
  up_.update_codes(ctx);
  down_.update_codes(ctx);
}

MeasuredTensor Mlp::activate(ExecContext& ctx, Arena& into, Tensor pre, Tensor magnitudes) const {
  const Tensor act = into.take({pre.rows(), gated_ ? pre.width() / 2 : pre.width()}, pre.dtype);
  if (gated_) {
    ops::gate(ctx.stream, act, pre, activation_, 0, magnitudes);
  } else {
    ops::activate(ctx.stream, act, pre, activation_, magnitudes);
  }
  return {act, magnitudes};
}

std::int64_t Mlp::chunk_rows(Device device, std::int64_t tokens, std::int64_t ranks) {
  constexpr std::int64_t kTile = 128;
  const std::int64_t most = tuning_of(device).mlp_rows * ranks;
  if (tokens <= most) return tokens;
  const std::int64_t chunks = (tokens + most - 1) / most;
  return (tokens + chunks * kTile - 1) / (chunks * kTile) * kTile;
}

Tensor Mlp::forward(ExecContext& ctx, Arena& into, const MeasuredTensor& x, Recompute recompute,
                    Saved& saved, const Residual& residual) const {
  const bool again = region_.recomputes_enter(recompute);
  const bool selective = recompute == Recompute::kSelective;
  Arena& entered = drops_norms(recompute) || again ? ctx.scratch : ctx.saved;
  Arena& passing = region_.splits_tokens() ? ctx.scratch : into;
  const MeasuredTensor all = enter(ctx, region_, entered, x);
  const std::int64_t tokens = all.values.rows();
  if (recompute == Recompute::kFull && chunk_rows(ctx, tokens) < tokens) {
    saved = {.up = {.x = all.values}};
    const Tensor y =
        residual ? residual.sum : passing.take({tokens, down_.out()}, all.values.dtype);
    forward_in_chunks(ctx, y, all.values, residual);
    return residual ? y : region_.leave(ctx, into, y);
  }
  saved.pre = up_.forward(ctx, ctx.saved, all, saved.up);
  if (again) saved.up = {.own = x.values, .inverse_scale = saved.up.inverse_scale};
  const MeasuredTensor act = activate(ctx, selective ? ctx.scratch : ctx.saved, saved.pre,
                                      down_.take_magnitudes(ctx.scratch));
  if (residual) {
    down_.forward_add(ctx, residual, act, saved.down);
    return residual.sum;
  }
  const Tensor partial = down_.forward(ctx, passing, act, saved.down, region_.slice());
  return region_.leave(ctx, into, partial);
}

void Mlp::forward_in_chunks(ExecContext& ctx, Tensor y, Tensor x, const Residual& residual) const {
  const std::int64_t step = chunk_rows(ctx, x.rows());
  for (std::int64_t first = 0; first < x.rows(); first += step) {
    const std::int64_t rows = std::min(step, x.rows() - first);
    const Arena::Frame frame(ctx.scratch);
    ExecContext passing{ctx.stream, ctx.scratch, ctx.scratch};
    Linear::Saved unused;
    const Tensor pre = up_.forward(passing, ctx.scratch, x.row_slice(first, rows), unused);
    const MeasuredTensor act =
        activate(passing, ctx.scratch, pre, down_.take_magnitudes(ctx.scratch));
    const Tensor to = y.row_slice(first, rows);
    if (residual) {
      down_.forward_add(passing, {residual.x.row_slice(first, rows), to}, act, unused);
    } else {
      down_.forward(passing, to, act, unused, region_.slice());
    }
  }
}

void Mlp::restore(ExecContext& ctx, const MeasuredTensor& x, Saved& saved) const {
  const MeasuredTensor all = enter(ctx, region_, ctx.saved, x);
  saved = {.up = {.x = all.values, .magnitudes = all.magnitudes}};
}

void Mlp::restore_dropped(ExecContext& ctx, Tensor x, Recompute recompute, Saved& saved) const {
  saved.up.x = region_.enter(ctx, ctx.lasting(), x);
  if (recompute == Recompute::kSelective)
    saved.down.x = activate(ctx, ctx.lasting(), saved.pre, {}).values;
}

Tensor Mlp::backward(ExecContext& ctx, Tensor dy, const Saved& saved) const {
  const Tensor d = region_.leave_backward(ctx, dy);
  if (!saved.pre) return backward_in_chunks(ctx, d, dy, {saved.up.x, saved.up.magnitudes});
  const MeasuredTensor dpre =
      activation_backward(ctx, Linear::Gradient(d, dy), saved.pre, saved.down);
  const Linear::Saved up = entered(ctx, region_, saved.up);
  Linear::Gradient of_up(dpre);
  const Tensor dx = region_.start_enter_backward(ctx, up_.backward_input(ctx, of_up));
  up_.backward_weight(ctx, of_up, up);
  region_.finish(ctx);
  return dx;
}

// Adds the gradients of down and returns that of `pre`, in the arena that up's asks for.
MeasuredTensor Mlp::activation_backward(ExecContext& ctx, Linear::Gradient of_down, Tensor pre,
                                        const Linear::Saved& down) const {
  const Tensor dact = down_.backward_input(ctx, of_down);
  down_.backward_weight(ctx, of_down, down);
  Arena& into = up_.gradient_arena(ctx);
  const bool in_place = !gated_ && &into == &ctx.scratch;
  const Tensor dpre = in_place ? dact : into.take(pre.shape, dact.dtype);
  const Tensor magnitudes = up_.take_magnitudes(ctx.scratch);
  if (gated_) {
    ops::gate_backward(ctx.stream, dpre, dact, pre, activation_, 0, magnitudes);
  } else {
    ops::activate_backward(ctx.stream, dpre, dact, pre, activation_, magnitudes);
  }
  return {dpre, magnitudes};
}

Mlp::UpGradient Mlp::chunk_backward(ExecContext& ctx, Tensor dx, const Linear::Gradient& of_down,
                                    const MeasuredTensor& x) const {
  Linear::Saved up;
  Tensor pre;
  MeasuredTensor act;
  {
    const RecomputedOps recomputed(ctx.stream);
    ExecContext again{ctx.stream, ctx.lasting(), ctx.scratch};
    pre = up_.forward(again, ctx.scratch, x, up);
    act = activate(ctx, ctx.lasting(), pre, down_.take_magnitudes(ctx.lasting()));
  }
  Linear::Gradient of_up(
      activation_backward(ctx, of_down, pre, {.x = act.values, .magnitudes = act.magnitudes}));
  up_.backward_input(ctx, dx, of_up);
  return {of_up, up};
}

Tensor Mlp::backward_in_chunks(ExecContext& ctx, Tensor d, Tensor dy,
                               const MeasuredTensor& all) const {
  const Tensor x = all.values, dx = ctx.scratch.take(x.shape, d.dtype);
  const std::int64_t step = chunk_rows(ctx, x.rows());
  const auto chunk = [&](std::int64_t first, std::int64_t rows) {
    // dy may have the rows of this rank alone: its sum is down's bias's gradient of all chunks.
    const Linear::Gradient of_down(d.row_slice(first, rows), first == 0 ? dy : Tensor{});
    return chunk_backward(ctx, dx.row_slice(first, rows), of_down,
                          rows == x.rows() ? all : MeasuredTensor(x.row_slice(first, rows)));
  };
  std::int64_t first = 0;
  for (; first + step < x.rows(); first += step) {
    const Arena::Frame frame(ctx.scratch);
    const UpGradient up = chunk(first, step);
    up_.backward_weight(ctx, up.gradient, up.saved);
  }
  // Of the last chunk, up's weight gradient is computed while dx is sent.
  const UpGradient last = chunk(first, x.rows() - first);
  const Tensor entering = region_.start_enter_backward(ctx, dx);
  up_.backward_weight(ctx, last.gradient, last.saved);
  region_.finish(ctx);
  return entering;
}

}  // namespace trireme
