#include "model/ops/routing.h"

#include <algorithm>

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"
#include "model/ops/row_chunks.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void route(Stream&, const Routes& routes, Tensor logits, const Routing& how,
                              Tensor bias));
TRIREME_ON_DEVICES(void update_router_bias(Stream&, Tensor bias, Tensor counts, Tensor grad_scale,
                                           double rate));
TRIREME_ON_DEVICES(void count_choices(Stream&, Tensor counts, Tensor experts));
TRIREME_ON_DEVICES(void router_losses(Stream&, Tensor partials, Tensor losses, Tensor counts,
                                      Tensor scores, Tensor logits, const Routing& how));
TRIREME_ON_DEVICES(void route_backward(Stream&, Tensor dlogits, Tensor dweights, Tensor logits,
                                       const Routes& routes, const Routing& how,
                                       const RouterLosses& losses));

namespace {

void require_routes(const Routes& routes, const Tensor& logits, const Routing& how) {
  const std::int64_t tokens = logits.rows(), experts = logits.width(), top_k = how.top_k;
  require(logits.dtype == accumulator_of(logits.dtype), "route: the logits are ",
          name_of(logits.dtype));
  require(experts <= kMostExperts, "route: ", experts, " experts, more than ", kMostExperts);
  require(top_k > 0 && top_k <= experts && top_k <= kMostChoices, "route: ", top_k, " choices of ",
          experts, " experts, of which at most ", kMostChoices);
  require_count("route: scores", routes.scores, logits.count(), logits.dtype);
  require_count("route: experts", routes.experts, tokens * top_k, DType::kI32);
}

void require_counts(const Tensor& counts, std::int64_t tokens, std::int64_t experts) {
  const std::int64_t groups = counts.rows();
  require_count("count_choices: counts", counts, groups * experts, DType::kF32);
  require(experts <= kMostExperts, "count_choices: ", experts, " experts, more than ",
          kMostExperts);
  require(groups > 0 && tokens % groups == 0, "count_choices: ", tokens, " tokens in ", groups,
          " groups");
}

}  // namespace

void route(Stream& stream, const Routes& routes, Tensor logits, const Routing& how, Tensor bias) {
  require_routes(routes, logits, how);
  const std::int64_t size = logits.width() / std::max<std::int64_t>(how.groups, 1);
  require(how.groups == 1 || (how.groups > 1 && how.groups <= kMostExpertGroups && size >= 2 &&
                              size * how.groups == logits.width()),
          "route: ", how.groups, " groups of ", logits.width(), " experts");
  require(how.top_groups > 0 && how.top_groups <= how.groups && how.top_k <= how.top_groups * size,
          "route: ", how.top_k, " choices of ", how.top_groups, " of ", how.groups, " groups");
  if (bias) require_count("route: bias", bias, logits.width(), DType::kF32);
  require_count("route: weights", routes.weights, routes.experts.count(), logits.dtype);
  record_memory(stream, "route", {logits, routes.scores, routes.weights, routes.experts});
  TRIREME_DISPATCH(stream, route(stream, routes, logits, how, bias));
}

void update_router_bias(Stream& stream, Tensor bias, Tensor counts, Tensor grad_scale,
                        double rate) {
  require_count("update_router_bias: bias", bias, counts.count(), DType::kF32);
  require_count("update_router_bias: counts", counts, counts.count(), DType::kF32);
  require_count("update_router_bias: grad_scale", grad_scale, 1, accumulator_of(grad_scale.dtype));
  require(counts.width() <= kMostExperts, "update_router_bias: ", counts.width(),
          " experts, more than ", kMostExperts);
  record_memory(stream, "update", {bias, bias, counts});
  TRIREME_DISPATCH(stream, update_router_bias(stream, bias, counts, grad_scale, rate));
}

void count_choices(Stream& stream, Tensor counts, Tensor experts) {
  require_count("count_choices: experts", experts, experts.count(), DType::kI32);
  require_counts(counts, experts.rows(), counts.width());
  record_memory(stream, "count_choices", {experts, counts});
  TRIREME_DISPATCH(stream, count_choices(stream, counts, experts));
}

void router_losses(Stream& stream, Arena& scratch, Tensor losses, Tensor counts, Tensor scores,
                   Tensor logits, const Routing& how) {
  require_count("router_losses: losses", losses, kRouterSums, DType::kF64);
  require(logits.dtype == accumulator_of(logits.dtype), "router_losses: the logits are ",
          name_of(logits.dtype));
  require_count("router_losses: scores", scores, logits.count(), logits.dtype);
  if (counts) require_counts(counts, logits.rows(), logits.width());
  const Arena::Frame frame(scratch);
  const Tensor partials =
      scratch.take({row_chunks(logits.rows(), stream.device()), kRouterSums}, DType::kF64);
  record_memory(stream, "router_losses", {logits, scores});
  TRIREME_DISPATCH(stream, router_losses(stream, partials, losses, counts, scores, logits, how));
}

void route_backward(Stream& stream, Tensor dlogits, Tensor dweights, Tensor logits,
                    const Routes& routes, const Routing& how, const RouterLosses& losses) {
  require_routes(routes, logits, how);
  require_count("route_backward: dlogits", dlogits, logits.count(), dlogits.dtype);
  require_count("route_backward: logits", logits, logits.count(), accumulator_of(dlogits.dtype));
  require_count("route_backward: dweights", dweights, routes.experts.count(), logits.dtype);
  if (losses.counts) require_counts(losses.counts, logits.rows(), logits.width());
  if (losses.scale) require_count("route_backward: scale", losses.scale, 1, DType::kF64);
  const bool reads_logits = losses.z_loss != 0 || how.score == RouterScore::kSigmoid;
  record_memory(
      stream, "route_backward",
      {dlogits, dweights, routes.scores, routes.experts, reads_logits ? logits : Tensor{}});
  TRIREME_DISPATCH(stream, route_backward(stream, dlogits, dweights, logits, routes, how, losses));
}

}  // namespace trireme::ops
