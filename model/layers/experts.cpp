#include "model/layers/experts.h"

#include <unordered_map>
#include <utility>

#include "model/base/error.h"
#include "model/ops/activation.h"

namespace trireme {
namespace {

std::int64_t own_count(const ExpertsSpec& spec, const TokenExchange& exchange) {
  const int ranks = exchange.slice().count;
  require(spec.count % ranks == 0, spec.count, " experts for ", ranks, " ranks");
  return spec.count / ranks;
}

// The parameters of some of a layer's experts: for each of them one for each of `names`, like
// `each`, whose name is that of all experts.
struct ExpertParams {
  ParamSpec each;
  std::vector<std::string> names;
  std::int64_t first = 0, count = 0;  // experts
  bool operator==(const ExpertParams&) const = default;

  ParamSpecs specs() const;
};

ParamSpecs ExpertParams::specs() const {
  ParamSpec spec = each;
  std::vector<ParamSpec> parts;
  parts.reserve(static_cast<std::size_t>(count) * names.size());
  for (std::int64_t e = first; e < first + count; ++e) {
    const std::string expert = each.name + "." + std::to_string(e) + ".";
    for (const std::string& part : names) {
      spec.name = expert + part;
      parts.push_back(spec);
    }
  }
  return std::make_shared<const std::vector<ParamSpec>>(std::move(parts));
}

// What this thread has declared: stores of layouts that are planned one after the other have it in
// common, and its names take longer than all else of a plan.
class KnownExperts {
 public:
  ParamSpecs specs_of(ExpertParams params) {
    std::vector<Known>& same_name = known_[params.each.name];
    for (const Known& one : same_name) {
      if (one.params == params) return one.specs;
    }
    ParamSpecs made = params.specs();
    count_ += made->size();
    if (count_ > kMostSpecs) {
      known_.clear();
      count_ = made->size();
    }
    known_[params.each.name].push_back({std::move(params), made});
    return made;
  }

 private:
  static constexpr std::size_t kMostSpecs = 250'000;  // tens of megabytes
  struct Known {
    ExpertParams params;
    ParamSpecs specs;
  };
  std::unordered_map<std::string, std::vector<Known>> known_;
  std::size_t count_ = 0;
};

// `each` for each of `names` and each of this rank's experts.
Weight& declare_experts(ParamStore& params, const ExpertsSpec& spec, const TokenExchange& exchange,
                        std::vector<std::string> names, ParamSpec each) {
  thread_local KnownExperts known;
  const std::int64_t count = own_count(spec, exchange);
  each.group = ParamGroup::kExperts;
  return params.declare(known.specs_of({.each = std::move(each),
                                        .names = std::move(names),
                                        .first = exchange.slice().index * count,
                                        .count = count}));
}

GroupedLinear declare_up(ParamStore& params, const std::string& name, const ExpertsSpec& spec,
                         const Region& region, const TokenExchange& exchange) {
  const ParamSpec matrix{.name = name,
                         .shape = {spec.intermediate, spec.hidden},
                         .cut = {0, region.slice()},
                         .init_scale = spec.init_scale,
                         .decay = true};
  const ParamSpec vector{
      .name = name, .shape = {spec.intermediate}, .cut = matrix.cut, .init = Init::kZeros};
  Weight& weight = declare_experts(params, spec, exchange, {"gate.weight", "up.weight"}, matrix);
  Weight* const bias =
      spec.bias ? &declare_experts(params, spec, exchange, {"gate.bias", "up.bias"}, vector)
                : nullptr;
  return {weight, bias, own_count(spec, exchange)};
}

GroupedLinear declare_down(ParamStore& params, const std::string& name, const ExpertsSpec& spec,
                           const Region& region, const TokenExchange& exchange) {
  const ParamSpec matrix{.name = name,
                         .shape = {spec.hidden, spec.intermediate},
                         .cut = {1, region.slice()},
                         .init_scale = spec.down_init_scale,
                         .decay = true};
  const ParamSpec vector{
      .name = name, .shape = {spec.hidden}, .cut = whole(region.slice()), .init = Init::kZeros};
  Weight& weight = declare_experts(params, spec, exchange, {"down.weight"}, matrix);
  Weight* const bias =
      spec.bias ? &declare_experts(params, spec, exchange, {"down.bias"}, vector) : nullptr;
  return {weight, bias, own_count(spec, exchange)};
}

// The order of the pairs, for a table with a row for each.
ops::ExpertRows by_pair(const ops::ExpertRows& rows) {
  return {.starts = rows.starts,
          .pairs = rows.pairs,
          .row_of = rows.row_of.reshaped({rows.pairs.count(), 1})};
}

}  // namespace

Experts::Experts(ParamStore& params, const std::string& name, const ExpertsSpec& spec,
                 const Region& region, TokenExchange& exchange)
    : spec_(spec),
      slice_(region.slice()),
      exchange_(exchange),
      up_(declare_up(params, name, spec, region, exchange)),
      down_(declare_down(params, name, spec, region, exchange)) {}

// Rounds after the first. If there are none, one without rows takes the memory that is planned for
// them.
template <class Body>
void Experts::each_further_round(const ops::ExpertRows& rows, const Saved& saved,
                                 const Body& body) const {
  if (exchange_.is_alone()) return;
  const std::vector<ExpertRound>& rounds = saved.rounds;
  if (rounds.size() == 1) {
    const ExpertRound none{.starts = rounds.front().starts.slice(0, 2)};
    body(Pass{none, rows});
  }
  for (std::size_t i = 1; i < rounds.size(); ++i) body(Pass{rounds[i], rows});
}

// Takes the memory of the largest round.
Tensor Experts::take_rows(Arena& arena, std::int64_t width, DType dtype, const Pass& pass) const {
  return arena.take({exchange_.capacity(pass.rows.pairs.count()), width}, dtype)
      .row_slice(0, pass.round.rows);
}

// The round's rows of tokens' `x`.
Tensor Experts::dispatched(ExecContext& ctx, Arena& into, Tensor x, const Pass& pass) const {
  const auto gathered = [&](Arena& arena) {
    const Tensor rows = arena.take({pass.rows.pairs.count(), x.width()}, x.dtype);
    ops::gather_tokens(ctx.stream, rows, x, pass.rows);
    return rows;
  };
  if (exchange_.is_alone()) return gathered(into);
  const Tensor received = take_rows(into, x.width(), x.dtype, pass);
  const Arena::Frame frame(ctx.scratch);
  exchange_.dispatch(ctx.stream, received, gathered(ctx.scratch), pass.round);
  return received;
}

Tensor Experts::activate(ExecContext& ctx, Arena& into, Tensor pre, const Pass& pass) const {
  const Tensor act = take_rows(into, pre.width() / 2, pre.dtype, pass);
  ops::gate(ctx.stream, act, pre, spec_.activation, spec_.swiglu_limit);
  return act;
}

Tensor Experts::results(ExecContext& ctx, Tensor pre, const Pass& pass) const {
  const Tensor act = activate(ctx, ctx.scratch, pre, pass);
  const Tensor y = take_rows(ctx.scratch, spec_.hidden, pre.dtype, pass);
  down_.forward(ctx, y, act, pass.round, slice_);
  return y;
}

void Experts::enter(ExecContext& ctx, Tensor x, const ops::ExpertRows& rows, bool saves_rows,
                    Saved& saved) const {
  const Pass first{saved.rounds.front(), rows};
  saved.pre = take_rows(ctx.saved, up_.out(), x.dtype, first);
  saved.dispatched = {};
  if (saves_rows && !exchange_.is_alone()) {
    saved.dispatched = dispatched(ctx, ctx.saved, x, first);
    return up_.forward(ctx, saved.pre, saved.dispatched, first.round);
  }
  const Arena::Frame frame(ctx.scratch);
  up_.forward(ctx, saved.pre, dispatched(ctx, ctx.scratch, x, first), first.round);
}

Tensor Experts::leave(ExecContext& ctx, Tensor x, const ops::ExpertRows& rows,
                      const Saved& saved) const {
  const Pass first{saved.rounds.front(), rows};
  if (exchange_.is_alone()) return results(ctx, saved.pre, first);
  const Tensor all = ctx.scratch.take({rows.pairs.count(), spec_.hidden}, x.dtype);
  const Arena::Frame frame(ctx.scratch);
  each_further_round(rows, saved, [&](const Pass& pass) {
    const Arena::Frame of_round(ctx.scratch);
    const Tensor pre = take_rows(ctx.scratch, up_.out(), x.dtype, pass);
    {
      const Arena::Frame of_rows(ctx.scratch);
      up_.forward(ctx, pre, dispatched(ctx, ctx.scratch, x, pass), pass.round);
    }
    exchange_.send_back(ctx.stream, all, results(ctx, pre, pass), pass.round);
  });
  exchange_.send_back(ctx.stream, all, results(ctx, saved.pre, first), first.round);
  return all;
}

// The gradients of the rows' weights, and act and dact with these weights, which are returned in
// order of the rows. The results are not saved: their dot products with their gradients are those
// of the activation with its gradient.
ops::RowWeights Experts::weigh(ExecContext& ctx, Tensor drows, Tensor act, Tensor dact,
                               Tensor weights, Tensor dweights, const Gradients& gradients,
                               const Pass& pass) const {
  if (exchange_.is_alone()) {
    ops::weigh_rows_backward(ctx.stream, dweights, act, dact, weights, pass.rows);
    down_.add_bias_dots(ctx, dweights, drows, pass.rows.pairs, pass.round, slice_);
    return {weights, pass.rows.pairs};
  }
  const Tensor received = take_rows(ctx.lasting(), 1, weights.dtype, pass);
  const Arena::Frame frame(ctx.scratch);
  const Tensor all = weights.reshaped({weights.count(), 1});
  const Tensor sent = ctx.scratch.take(all.shape, all.dtype);
  const Tensor products = take_rows(ctx.scratch, 1, all.dtype, pass);
  ops::gather_tokens(ctx.stream, sent, all, by_pair(pass.rows));
  exchange_.dispatch(ctx.stream, received, sent, pass.round);
  ops::weigh_rows_backward(ctx.stream, products, act, dact, received, {});
  down_.add_bias_dots(ctx, products, drows, {}, pass.round, slice_);
  exchange_.send_back(ctx.stream, gradients.dweights, products, pass.round);
  return {received, {}};
}

// Returns the gradient of the activation's input, in ctx.lasting().
Tensor Experts::round_backward_down(ExecContext& ctx, Tensor dy, Tensor pre, Tensor weights,
                                    Tensor dweights, const Gradients& gradients,
                                    const Pass& pass) const {
  const Tensor drows = dispatched(ctx, ctx.lasting(), dy, pass);
  const Tensor act = activate(ctx, ctx.lasting(), pre, pass);
  const Tensor dact = take_rows(ctx.scratch, down_.in(), dy.dtype, pass);
  down_.backward_input(ctx, dact, drows, pass.round);
  const ops::RowWeights by_row = weigh(ctx, drows, act, dact, weights, dweights, gradients, pass);
  down_.backward_weight(ctx, drows, act, pass.round, by_row);
  const Tensor dpre = take_rows(ctx.lasting(), up_.out(), dy.dtype, pass);
  ops::gate_backward(ctx.stream, dpre, dact, pre, spec_.activation, spec_.swiglu_limit);
  return dpre;
}

// Returns the gradients of this rank's rows, on several ranks those that have come back so far.
Tensor Experts::round_backward_up(ExecContext& ctx, Tensor dpre, const Gradients& gradients,
                                  const Pass& pass) const {
  const Tensor dx = take_rows(ctx.scratch, spec_.hidden, dpre.dtype, pass);
  up_.backward_input(ctx, dx, dpre, pass.round);
  if (exchange_.is_alone()) return dx;
  exchange_.send_back(ctx.stream, gradients.dx, dx, pass.round);
  return gradients.dx;
}

Experts::Gradients Experts::backward_down(ExecContext& ctx, Tensor x, Tensor dy, Tensor weights,
                                          Tensor dweights, const ops::ExpertRows& rows,
                                          const Saved& saved) const {
  Gradients gradients;
  if (!exchange_.is_alone()) {
    gradients.dx = ctx.scratch.take({rows.pairs.count(), spec_.hidden}, dy.dtype);
    gradients.dweights = ctx.scratch.take({rows.pairs.count(), 1}, weights.dtype);
  }
  // Weight gradients of further rounds are not deferred: their rows are in scratch.
  each_further_round(rows, saved, [&](const Pass& pass) {
    const Arena::Frame frame(ctx.scratch);
    ExecContext now{ctx.stream, ctx.scratch, ctx.scratch};
    const Tensor pre = take_rows(now.scratch, up_.out(), dy.dtype, pass);
    const Tensor entering = dispatched(now, now.scratch, x, pass);
    up_.forward(now, pre, entering, pass.round);
    const Tensor dpre = round_backward_down(now, dy, pre, weights, dweights, gradients, pass);
    round_backward_up(now, dpre, gradients, pass);
    up_.backward_weight(now, dpre, entering, pass.round);
  });
  gradients.dpre = round_backward_down(ctx, dy, saved.pre, weights, dweights, gradients,
                                       {saved.rounds.front(), rows});
  if (!exchange_.is_alone()) {
    ops::combine_rows(ctx.stream, dweights.reshaped({dweights.count(), 1}), gradients.dweights, {},
                      by_pair(rows));
  }
  return gradients;
}

Tensor Experts::backward_up(ExecContext& ctx, const Gradients& gradients,
                            const ops::ExpertRows& rows, const Saved& saved) const {
  return round_backward_up(ctx, gradients.dpre, gradients, {saved.rounds.front(), rows});
}

void Experts::backward_weight(ExecContext& ctx, Tensor x, const Gradients& gradients,
                              const ops::ExpertRows& rows, const Saved& saved) const {
  const Pass first{saved.rounds.front(), rows};
  const Tensor entering =
      saved.dispatched ? saved.dispatched : dispatched(ctx, ctx.lasting(), x, first);
  up_.backward_weight(ctx, gradients.dpre, entering, first.round);
}

}  // namespace trireme
