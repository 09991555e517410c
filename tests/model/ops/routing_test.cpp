#include "model/ops/routing.h"

#include <limits>
#include <numeric>

#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

struct Size {
  std::int64_t tokens = 0, experts = 0, top_k = 0;
};
constexpr Size kSizes[] = {{3, 2, 1}, {8, 7, 7}, {40, 64, 6}, {12, 130, 8}, {6, 512, 16}};
constexpr Routing kRoutings[] = {
    {},
    {.renormalize = true},
    {.scale = 2.5},
    {.score = RouterScore::kSigmoid},
    {.score = RouterScore::kSigmoid, .renormalize = true, .scale = 1.5}};

// Calls body(stream, dtype, size, how), dtype that of the activations.
template <class Body>
void for_every_routing(const Body& body) {
  on_every_platform_and_dtype([&](Stream& stream, DType dtype) {
    for (const Size& size : kSizes) {
      for (Routing how : kRoutings) {
        how.top_k = size.top_k;
        SCOPED_TRACE(say(how.top_k, " of ", size.experts,
                         how.score == RouterScore::kSigmoid ? ", sigmoid" : ", softmax",
                         how.renormalize ? ", renormalized" : ""));
        body(stream, dtype, size, how);
      }
    }
  });
}

Values softmax(const Values& x) {
  Values y(x.size());
  const double top = *std::max_element(x.begin(), x.end());
  std::transform(x.begin(), x.end(), y.begin(), [&](double v) { return std::exp(v - top); });
  const double sum = std::accumulate(y.begin(), y.end(), 0.0);
  for (double& v : y) v /= sum;
  return y;
}
Values scores_of(const Values& x, RouterScore score) {
  if (score == RouterScore::kSoftmax) return softmax(x);
  Values y(x.size());
  std::transform(x.begin(), x.end(), y.begin(), [](double v) { return 1 / (1 + std::exp(-v)); });
  return y;
}
double log_sum_exp(const Values& x) {
  double sum = 0;
  for (const double v : x) sum += std::exp(v);
  return std::log(sum);
}
Values row_of(const Values& all, std::int64_t row, std::int64_t width) {
  return {all.begin() + row * width, all.begin() + (row + 1) * width};
}
Values weights_of(const Values& scores, const Values& chosen, const Routing& how) {
  Values weights;
  for (const double expert : chosen) weights.push_back(scores[static_cast<std::size_t>(expert)]);
  const double sum = how.renormalize ? std::accumulate(weights.begin(), weights.end(), 0.0) : 1;
  for (double& weight : weights) weight *= how.scale / sum;
  return weights;
}

// Logits and what route() makes of them.
struct Routed {
  Routed(Stream& stream, const Size& size, const Routing& how, DType sums, const Values& values,
         Tensor bias = {})
      : logits(stream, {size.tokens, size.experts}, sums, values),
        scores(stream, {size.tokens, size.experts}, sums),
        weights(stream, {size.tokens, how.top_k}, sums),
        experts(stream, {size.tokens, how.top_k}, DType::kI32),
        routes{.scores = scores, .weights = weights, .experts = experts} {
    route(stream, routes, logits, how, bias);
  }
  Held logits, scores, weights, experts;
  Routes routes;
};

TEST(Routing, chooses_the_experts_of_highest_score) {
  for_every_routing([](Stream& stream, DType dtype, const Size& size, const Routing& how) {
    const DType sums = accumulator_of(dtype);
    const Values x = random_values(size.tokens * size.experts, 1, sums, 2);
    const Routed routed(stream, size, how, sums, x);
    Values scores, weights, chosen;
    for (std::int64_t token = 0; token < size.tokens; ++token) {
      const Values of = scores_of(row_of(x, token, size.experts), how.score);
      // As sorted by the scores that are there.
      const Values here = row_of(routed.scores.values(), token, size.experts);
      Values order(here.size());
      std::iota(order.begin(), order.end(), 0.0);
      std::stable_sort(order.begin(), order.end(), [&](double a, double b) {
        return here[static_cast<std::size_t>(a)] > here[static_cast<std::size_t>(b)];
      });
      order.resize(static_cast<std::size_t>(how.top_k));
      const Values weight = weights_of(of, order, how);
      scores.insert(scores.end(), of.begin(), of.end());
      chosen.insert(chosen.end(), order.begin(), order.end());
      weights.insert(weights.end(), weight.begin(), weight.end());
    }
    expect_values(routed.scores, scores, 10);
    EXPECT_EQ(routed.experts.values(), chosen);
    expect_values(routed.weights, weights, 30);
  });
}

TEST(Routing, prefers_the_lower_of_equal_experts_and_survives_extremes) {
  on_every_platform([](Stream& stream) {
    for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid}) {
      const Size size{.tokens = 4, .experts = 70, .top_k = 5};
      Values x(size.tokens * size.experts, 0.25);
      for (const int expert : {69, 33, 1}) x[70 + expert] = 2;
      for (int expert = 0; expert < 70; ++expert) x[2 * 70 + expert] = expert % 2 ? 1000 : -1000;
      for (int expert = 0; expert < 70; ++expert) x[3 * 70 + expert] = kNan;
      const Routed routed(stream, size, {.score = score, .top_k = 5}, DType::kF32, x);
      const Values expected{0, 1, 2, 3, 4, 1, 33, 69, 0, 2, 1, 3, 5, 7, 9, 0, 1, 2, 3, 4};
      EXPECT_EQ(routed.experts.values(), expected);
      const Values weights = routed.weights.values();
      EXPECT_NEAR(weights[10], score == RouterScore::kSoftmax ? 1.0 / 35 : 1, 1e-6);
      EXPECT_TRUE(std::isnan(weights[15]));
    }
  });
}

// The `most` highest of `ranks`, highest first, of equals the first.
std::vector<std::int64_t> highest(const Values& ranks, std::int64_t most) {
  std::vector<std::int64_t> order(ranks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return ranks[a] > ranks[b]; });
  order.resize(static_cast<std::size_t>(most));
  return order;
}
// What a token chooses by these scores of experts; `add` makes the sums that a device rounds.
template <class Add>
Values limited_choice(const Values& scores, const Routing& how, const Add& add) {
  const std::int64_t size = std::ssize(scores) / how.groups;
  Values sums;
  for (std::int64_t group = 0; group < how.groups; ++group) {
    const Values own = row_of(scores, group, size);
    const std::vector<std::int64_t> best = highest(own, 2);
    sums.push_back(add(own[best[0]], own[best[1]]));
  }
  Values within(scores.size(), -std::numeric_limits<double>::infinity());
  for (const std::int64_t group : highest(sums, how.top_groups)) {
    std::copy_n(scores.begin() + group * size, size, within.begin() + group * size);
  }
  Values chosen;
  for (const std::int64_t expert : highest(within, how.top_k)) {
    chosen.push_back(static_cast<double>(expert));
  }
  return chosen;
}

TEST(Routing, groups_limit_the_choice_and_a_bias_changes_it_but_not_the_weights) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const DType sums = accumulator_of(dtype);
    const auto add = [&](double a, double b) {
      return sums == DType::kF64 ? a + b : double{static_cast<float>(a) + static_cast<float>(b)};
    };
    struct Limit {
      Size size;
      std::int64_t groups = 1, top_groups = 1;
    };
    for (const Limit& of : {Limit{{9, 6, 2}, 3, 1},
                            Limit{{9, 64, 6}, 8, 3},
                            Limit{{5, 24, 4}, 2, 2},
                            Limit{{7, 256, 8}, 8, 4},
                            Limit{{4, 320, 5}, 32, 7},
                            {{9, 13, 3}}}) {
      for (Routing how : kRoutings) {
        how.top_k = of.size.top_k;
        how.groups = of.groups;
        how.top_groups = of.top_groups;
        for (const bool biased : {false, true}) {
          if (!biased && of.groups == 1) continue;
          SCOPED_TRACE(say(of.size.experts, " experts, ", of.top_groups, " of ", of.groups,
                           biased ? ", biased" : ""));
          const Values offsets = random_values(of.size.experts, 3, DType::kF32, 0.3);
          const Held bias(stream, {of.size.experts}, DType::kF32, offsets);
          const Values x = random_values(of.size.tokens * of.size.experts, 1, sums, 2);
          const Routed routed(stream, of.size, how, sums, x, biased ? bias : Tensor{});
          Values weights, chosen;
          for (std::int64_t token = 0; token < of.size.tokens; ++token) {
            const Values exact = scores_of(row_of(x, token, of.size.experts), how.score);
            Values here = row_of(routed.scores.values(), token, of.size.experts);
            for (std::size_t e = 0; biased && e < here.size(); ++e)
              here[e] = add(here[e], offsets[e]);
            const Values own = limited_choice(here, how, add);
            const Values weight = weights_of(exact, own, how);
            chosen.insert(chosen.end(), own.begin(), own.end());
            weights.insert(weights.end(), weight.begin(), weight.end());
          }
          EXPECT_EQ(routed.experts.values(), chosen);
          expect_values(routed.weights, weights, 30);
        }
      }
    }
  });
}

TEST(Routing, limited_choices_are_distinct_and_those_of_lowest_index_where_all_are_equal) {
  on_every_platform([](Stream& stream) {
    const Size size{.tokens = 4, .experts = 40, .top_k = 3};
    Values x(size.tokens * size.experts, 0.25), low(size.experts, -2.0);
    for (int expert = 0; expert < 40; ++expert) x[40 + expert] = kNan;
    x[2 * 40 + 12] = kNan;
    for (const int expert : {31, 36, 38}) x[3 * 40 + expert] = 4;
    const Routing how{.score = RouterScore::kSigmoid, .top_k = 3, .groups = 8, .top_groups = 1};
    const Held bias(stream, {size.experts}, DType::kF32, low);
    const Routed routed(stream, size, how, DType::kF32, x, bias);
    EXPECT_EQ(routed.experts.values(), (Values{0, 1, 2, 0, 1, 2, 0, 1, 2, 36, 38, 35}));
  });
}

TEST(Routing, in_turn_gives_all_experts_the_same_load_and_weighs_them_by_their_scores) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const DType sums = accumulator_of(dtype);
    for (const Size& size : {Size{10, 5, 2}, Size{32, 40, 5}, Size{6, 4, 4}}) {
      for (Routing how : kRoutings) {
        how.top_k = size.top_k;
        how.in_turn = true;
        const Values x = random_values(size.tokens * size.experts, 1, sums, 2);
        const Routed routed(stream, size, how, sums, x);
        Values weights, chosen;
        for (std::int64_t token = 0; token < size.tokens; ++token) {
          Values own;
          for (std::int64_t k = 0; k < size.top_k; ++k)
            own.push_back(static_cast<double>((token * size.top_k + k) % size.experts));
          const Values scores = scores_of(row_of(x, token, size.experts), how.score);
          const Values weight = weights_of(scores, own, how);
          chosen.insert(chosen.end(), own.begin(), own.end());
          weights.insert(weights.end(), weight.begin(), weight.end());
        }
        EXPECT_EQ(routed.experts.values(), chosen);
        expect_values(routed.weights, weights, 30);
        Held counts(stream, {1, size.experts}, DType::kF32);
        count_choices(stream, counts, routed.experts);
        const Values even(static_cast<std::size_t>(size.experts),
                          static_cast<double>(size.tokens * size.top_k / size.experts));
        EXPECT_EQ(counts.values(), even);
      }
    }
  });
}

TEST(Routing, bias_moves_towards_experts_that_are_chosen_too_rarely) {
  on_every_platform([](Stream& stream) {
    for (const DType of_scale : {DType::kF32, DType::kF64}) {
      const Held counts(stream, {3, 4}, DType::kF32, {5, 1, 3, 3, 0, 0, 0, 0, 16777216, 2, 0, 1});
      const Values before{0.5, -0.25, 1, 2, 1, 1, 1, 1, 0, 0, 0, 0};
      const Held bias(stream, {3, 4}, DType::kF32, before);
      update_router_bias(stream, bias, counts, Held(stream, {1}, of_scale, {kNan}), 0.125);
      EXPECT_EQ(bias.values(), before);
      update_router_bias(stream, bias, counts, Held(stream, {1}, of_scale, {0.5}), 0.125);
      EXPECT_EQ(bias.values(),
                (Values{0.375, -0.125, 1, 2, 1, 1, 1, 1, -0.125, 0.125, 0.125, 0.125}));
    }
  });
}

Values counts_of(const Values& chosen, const Size& size, std::int64_t groups) {
  Values counts(groups * size.experts, 0.0);
  const std::int64_t tokens = size.tokens / groups, pairs = tokens * size.top_k;
  for (std::int64_t pair = 0; pair < std::ssize(chosen); ++pair) {
    counts[pair / pairs * size.experts + static_cast<std::int64_t>(chosen[pair])] += 1;
  }
  return counts;
}

// The balance loss, the z-loss and the entropy, each summed over tokens.
Values losses_of(const Values& x, const Values& counts, const Size& size, RouterScore score) {
  const std::int64_t groups = std::ssize(counts) / size.experts;
  Values losses(kRouterSums, 0.0);
  for (std::int64_t token = 0; token < size.tokens; ++token) {
    const Values row = row_of(x, token, size.experts);
    Values p = scores_of(row, score);
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& v : p) v /= sum;
    const Values share = row_of(counts, token / (size.tokens / groups), size.experts);
    losses[0] += static_cast<double>(size.experts * groups) / static_cast<double>(size.tokens) *
                 dot(share, p);
    losses[1] += std::pow(log_sum_exp(row), 2);
    for (const double v : p) losses[2] -= v * std::log(v);
  }
  return losses;
}

TEST(Routing, losses_are_those_of_their_definitions) {
  for_every_routing([](Stream& stream, DType dtype, const Size& size, const Routing& how) {
    const DType sums = accumulator_of(dtype);
    const Values x = random_values(size.tokens * size.experts, 1, sums, 2);
    const Routed routed(stream, size, how, sums, x);
    for (const std::int64_t groups : {std::int64_t{1}, size.tokens % 4 == 0 ? 4 : size.tokens}) {
      const Held counts(stream, {groups, size.experts}, DType::kF32);
      count_choices(stream, counts, routed.experts);
      const Values expected = counts_of(routed.experts.values(), size, groups);
      expect_values(counts, expected, 8);
      const Held losses(stream, {kRouterSums}, DType::kF64);
      Arena scratch(1 << 16, stream.device());
      router_losses(stream, scratch, losses, counts, routed.scores, routed.logits, how);
      EXPECT_EQ(scratch.used(), 0u);
      const Values right = losses_of(x, expected, size, how.score), got = losses.values();
      for (int i = 0; i < kRouterSums; ++i) EXPECT_NEAR(got[i], right[i], 1e-6 * right[i]) << i;
      router_losses(stream, scratch, losses, {}, routed.scores, routed.logits, how);
      EXPECT_EQ(losses.values(), (Values{0, got[1], got[2]}));
    }
  });
}

// The gradient of dot(weights, dweights) and of the losses, by central differences.
TEST(Routing, backward_is_the_derivative) {
  on_every_platform([](Stream& stream) {
    for (const Size& size : {Size{4, 6, 2}, Size{2, 37, 5}}) {
      for (Routing how : kRoutings) {
        how.top_k = size.top_k;
        const Values x = random_values(size.tokens * size.experts, 4);
        const Values dweights = random_values(size.tokens * size.top_k, 2);
        const Routed routed(stream, size, how, DType::kF64, x);
        const Values chosen = routed.experts.values();
        const Held dw(stream, {size.tokens, size.top_k}, DType::kF64, dweights);
        const Held counts(stream, {2, size.experts}, DType::kF32);
        const Held scale(stream, {1}, DType::kF64, {8});
        count_choices(stream, counts, routed.experts);
        const Values of_groups = counts.values();
        for (const bool balanced : {false, true}) {
          RouterLosses losses{.z_loss = balanced ? 0.01 : 0.0};
          if (balanced) losses = {counts, 0.05, 0.01, scale};
          const Held dx(stream, {size.tokens, size.experts}, DType::kF64);
          route_backward(stream, dx, dw, routed.logits, routed.routes, how, losses);
          expect_gradient(
              [&](const Values& changed) {
                double sum = 0;
                for (std::int64_t token = 0; token < size.tokens; ++token) {
                  const Values scores = scores_of(row_of(changed, token, size.experts), how.score);
                  sum += dot(weights_of(scores, row_of(chosen, token, size.top_k), how),
                             row_of(dweights, token, size.top_k));
                }
                const Values terms = losses_of(changed, of_groups, size, how.score);
                return balanced ? sum + 8 * (0.05 * terms[0] + 0.01 * terms[1]) : sum;
              },
              x, dx.values());
        }
      }
    }
  });
}

TEST(Routing, entropy_is_zero_of_sure_routers_and_that_of_even_ones_at_any_size_of_logits) {
  on_every_platform([](Stream& stream) {
    for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid}) {
      const Size size{.tokens = 3, .experts = 40, .top_k = 2};
      const Routing how{.score = score, .top_k = 2};
      Values x(size.tokens * size.experts, -1000);
      for (int token = 0; token < size.tokens; ++token) x[token * size.experts + 5] = 1000;
      const Held losses(stream, {kRouterSums}, DType::kF64);
      Arena scratch(1 << 16, stream.device());
      const auto entropy = [&](const Values& logits) {
        const Routed routed(stream, size, how, DType::kF32, logits);
        router_losses(stream, scratch, losses, {}, routed.scores, routed.logits, how);
        return losses.values()[2];
      };
      EXPECT_EQ(entropy(x), 0);
      const double even = 3 * std::log(40.0);
      for (const double logit : {-50.0, 0.0, 1000.0}) {
        EXPECT_NEAR(entropy(Values(x.size(), logit)), even, 1e-6 * even) << logit;
      }
    }
  });
}

TEST(Routing, backward_of_every_dtype_is_that_of_float64) {
  for_every_routing([](Stream& stream, DType dtype, const Size& size, const Routing& how) {
    const DType sums = accumulator_of(dtype);
    const Values x = random_values(size.tokens * size.experts, 1, DType::kF32, 2);
    const Values dweights = random_values(size.tokens * size.top_k, 2, DType::kF32);
    const auto gradient = [&](DType logits, const Held& dx) {
      const Routed routed(stream, size, how, logits, x);
      const Held counts(stream, {1, size.experts}, DType::kF32);
      count_choices(stream, counts, routed.experts);
      const Held scale(stream, {1}, DType::kF64, {4});
      route_backward(stream, dx, Held(stream, {size.tokens, size.top_k}, logits, dweights),
                     routed.logits, routed.routes, how,
                     {.counts = counts, .balance = 0.01, .z_loss = 0.001, .scale = scale});
    };
    const Held exact(stream, {size.tokens, size.experts}, DType::kF64);
    const Held dx(stream, {size.tokens, size.experts}, dtype);
    gradient(DType::kF64, exact);
    gradient(sums, dx);
    expect_values(dx, exact.values(), 30);
  });
}

TEST(Routing, bits_do_not_depend_on_threads) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const Size size{.tokens = kTriesCuda ? 90 : 600, .experts = 60, .top_k = 4};
    const DType sums = accumulator_of(dtype);
    const Values x = random_values(size.tokens * size.experts, 1, sums);
    const Held dw(stream, {size.tokens, 4}, sums, random_values(size.tokens * 4, 2, sums));
    expect_thread_independent([&] {
      const Routing how{.score = RouterScore::kSigmoid, .top_k = 4, .renormalize = true};
      const Routed routed(stream, size, how, sums, x);
      const Held counts(stream, {3, size.experts}, DType::kF32),
          losses(stream, {kRouterSums}, DType::kF64);
      const Held dx(stream, {size.tokens, size.experts}, dtype);
      Arena scratch(1 << 16, stream.device());
      count_choices(stream, counts, routed.experts);
      router_losses(stream, scratch, losses, counts, routed.scores, routed.logits, how);
      route_backward(stream, dx, dw, routed.logits, routed.routes, how,
                     {.counts = counts, .balance = 0.01, .z_loss = 0.001});
      return joined({&routed.scores, &routed.weights, &routed.experts, &counts, &losses, &dx});
    });
  });
}

TEST(Routing, of_too_many_choices_or_experts_is_an_error) {
  on_every_platform([](Stream& stream) {
    const Size size{.tokens = 2, .experts = 3, .top_k = 4};
    const Values x(6, 0.0);
    EXPECT_THROW(Routed(stream, size, {.top_k = 4}, DType::kF32, x), Error);
    EXPECT_THROW(Routed(stream, size, {.top_k = 0}, DType::kF32, x), Error);
    EXPECT_THROW(Routed(stream, size, {.top_k = 1}, DType::kBf16, x), Error);
    EXPECT_THROW(Routed(stream, {1, 513, 1}, {}, DType::kF32, Values(513, 0.0)), Error);
    const Values eight(8, 0.0);
    const auto limited = [&](std::int64_t top_k, std::int64_t groups, std::int64_t top_groups) {
      const Routing how{.top_k = top_k, .groups = groups, .top_groups = top_groups};
      const Routed routed(stream, {1, 8, 1}, how, DType::kF32, eight);
    };
    EXPECT_NO_THROW(limited(4, 4, 2));
    EXPECT_THROW(limited(5, 4, 2), Error);
    EXPECT_THROW(limited(1, 3, 1), Error);
    EXPECT_THROW(limited(1, 8, 8), Error);
    EXPECT_THROW(limited(1, 2, 3), Error);
    EXPECT_THROW(limited(1, 0, 0), Error);
  });
}

}  // namespace
}  // namespace trireme::ops
