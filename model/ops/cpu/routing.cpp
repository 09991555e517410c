#include "model/ops/routing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#define HWY_TARGET_INCLUDE "model/ops/cpu/routing.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/device/cpu/threads.h"
#include "model/ops/cpu/simd/exp.h"
#include "model/ops/row_chunks.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

using trireme::cpu::parallel_for;

// Of a softmax.
template <class A>
struct Normalizer {
  A top, sum;

  HWY_INLINE double log_of_sum() const { return __builtin_log(static_cast<double>(sum)); }
  HWY_INLINE double log_sum_exp() const { return static_cast<double>(top) + log_of_sum(); }
};
template <class A>
HWY_INLINE Normalizer<A> normalizer(const A* x, std::int64_t count) {
  Sums<A> tops(spread(x[0])), sums;
  each_vector<A>(count, [&](auto some, std::int64_t i, int k) {
    tops[k] = above(keep<A>(some, load(some, x + i), x[0]), tops[k]);
  });
  HWY_ALIGN A lanes[kLanes<A>];
  Store(above(above(tops[0], tops[1]), above(tops[2], tops[3])), Lanes<A>(), lanes);
  A top = lanes[0];
  for (const A lane : lanes) top = lane > top ? lane : top;
  each_vector<A>(count, [&](auto some, std::int64_t i, int k) {
    sums[k] += keep<A>(some, exp<A>(load(some, x + i) - spread(top)));
  });
  return {top, total(sums)};
}

template <class A>
TRIREME_KERNEL void score_row(A* scores, const A* logits, std::int64_t experts, RouterScore score) {
  if (score == RouterScore::kSigmoid) {
    each_vector<A>(experts, [&](auto some, std::int64_t i, int) {
      store(some, scores + i, sigmoid<A>(load(some, logits + i)).value);
    });
    return;
  }
  const Normalizer<A> by = normalizer(logits, experts);
  each_vector<A>(experts, [&](auto some, std::int64_t i, int) {
    store(some, scores + i, exp<A>(load(some, logits + i) - spread(by.top)) / spread(by.sum));
  });
}

// Inserts each index among the highest so far, behind equals.
template <class A>
void choose(std::int32_t* chosen, const A* ranks, std::int64_t among, std::int64_t top_k) {
  std::int64_t count = 0;
  for (std::int32_t index = 0; index < among; ++index) {
    const A mine = ranks[index];
    if (count == top_k && !(mine > ranks[chosen[top_k - 1]])) continue;
    std::int64_t place = count < top_k ? count++ : top_k - 1;
    for (; place > 0 && mine > ranks[chosen[place - 1]]; --place) chosen[place] = chosen[place - 1];
    chosen[place] = index;
  }
}

// NaN as the lowest number.
template <class A>
A ranked(A score) {
  constexpr A kLowest = std::numeric_limits<A>::lowest();
  return score > kLowest ? score : kLowest;
}

// Ranks below all numbers the experts outside of the chosen groups.
template <class A>
void limit_to_groups(A* ranks, std::int64_t experts, const Routing& how) {
  const std::int64_t size = experts / how.groups;
  A sums[kMostExpertGroups];
  for (std::int64_t group = 0; group < how.groups; ++group) {
    std::int32_t best[2];
    choose(best, ranks + group * size, size, 2);
    sums[group] = ranked(ranks[group * size + best[0]] + ranks[group * size + best[1]]);
  }
  std::int32_t chosen[kMostExpertGroups];
  choose(chosen, sums, how.groups, how.top_groups);
  for (std::int32_t group = 0; group < how.groups; ++group) {
    if (std::find(chosen, chosen + how.top_groups, group) != chosen + how.top_groups) continue;
    std::fill_n(ranks + group * size, size, -std::numeric_limits<A>::infinity());
  }
}

void choose_in_turn(std::int32_t* chosen, std::int64_t token, std::int64_t experts,
                    std::int64_t top_k) {
  for (std::int64_t k = 0; k < top_k; ++k) {
    chosen[k] = static_cast<std::int32_t>((token * top_k + k) % experts);
  }
}

template <class A>
void weigh(A* weights, const A* scores, const std::int32_t* chosen, const Routing& how) {
  A factor = static_cast<A>(how.scale);
  if (how.renormalize) {
    A sum = 0;
    for (std::int64_t k = 0; k < how.top_k; ++k) sum += scores[chosen[k]];
    factor /= sum;
  }
  for (std::int64_t k = 0; k < how.top_k; ++k) weights[k] = scores[chosen[k]] * factor;
}

void route(const Routes& routes, Tensor logits, const Routing& how, Tensor bias) {
  const std::int64_t experts = logits.width(), top_k = how.top_k;
  const float* const biases = at<float>(bias);
  with_float(logits.dtype, [&]<class A>(A) {
    if constexpr (kIsAccumulator<A>) {
      parallel_for(logits.rows(), row_grain(8 * experts),
                   [&](std::int64_t first, std::int64_t last) {
                     A ranks[kMostExperts];
                     for (std::int64_t token = first; token < last; ++token) {
                       A* const scores = at<A>(routes.scores, token * experts);
                       auto* const chosen = at<std::int32_t>(routes.experts, token * top_k);
                       score_row(scores, at<A>(logits, token * experts), experts, how.score);
                       for (std::int64_t e = 0; e < experts; ++e) {
                         const A added = biases ? static_cast<A>(biases[e]) : A(0);
                         ranks[e] = ranked(scores[e] + added);
                       }
                       if (how.groups > 1) limit_to_groups(ranks, experts, how);
                       if (how.in_turn) {
                         choose_in_turn(chosen, token, experts, top_k);
                       } else {
                         choose(chosen, ranks, experts, top_k);
                       }
                       weigh(at<A>(routes.weights, token * top_k), scores, chosen, how);
                     }
                   });
    }
  });
}

// A token's balance loss of its group, times the group's tokens.
template <class A>
TRIREME_KERNEL double balance_of(const A* scores, const float* counts, std::int64_t experts,
                                 RouterScore score) {
  Sums<double> sums, all;
  each_vector<double>(experts, [&](auto some, std::int64_t i, int k) {
    const Vec<double> value = load_as<double>(some, scores + i);
    sums[k] = MulAdd(load_as<double>(some, counts + i), value, sums[k]);
    all[k] += value;
  });
  const double sum = static_cast<double>(experts) * total(sums);
  return score == RouterScore::kSigmoid ? sum / total(all) : sum;
}
// Of p = s / S, where S is the sum of the scores s: log S - sum of s log s / S.
template <class A>
TRIREME_KERNEL double entropy_of_sigmoids(const A* scores, std::int64_t experts) {
  double all = 0, sum = 0;
  for (std::int64_t e = 0; e < experts; ++e) {
    const auto score = static_cast<double>(scores[e]);
    all += score;
    if (score != 0) sum += score * __builtin_log(score);
  }
  return __builtin_log(all) - sum / all;
}
// By the logits below the highest, which do not cancel as logits themselves would.
template <class A>
TRIREME_KERNEL double entropy_of_softmax(const A* scores, const A* logits, const Normalizer<A>& by,
                                         std::int64_t experts) {
  Sums<double> sums;
  const auto top = spread(static_cast<double>(by.top));
  each_vector<double>(experts, [&](auto some, std::int64_t i, int k) {
    const Vec<double> below = load_as<double>(some, logits + i) - top;
    sums[k] = MulAdd(load_as<double>(some, scores + i), below, sums[k]);
  });
  return by.log_of_sum() - total(sums);
}
// Adds a token's z-loss and entropy.
template <class A>
TRIREME_KERNEL void add_token(double* sums, const A* scores, const A* logits, std::int64_t experts,
                              RouterScore score) {
  const Normalizer<A> by = normalizer(logits, experts);
  const double whole = by.log_sum_exp();
  sums[1] += whole * whole;
  sums[2] += score == RouterScore::kSigmoid ? entropy_of_sigmoids(scores, experts)
                                            : entropy_of_softmax(scores, logits, by, experts);
}

void router_losses(Tensor partials, Tensor losses, Tensor counts, Tensor scores, Tensor logits,
                   const Routing& how) {
  const std::int64_t experts = logits.width(), tokens = logits.rows();
  const std::int64_t group = counts ? tokens / counts.rows() : tokens;
  with_float(logits.dtype, [&]<class A>(A) {
    if constexpr (kIsAccumulator<A>) {
      const auto add_chunk = [&](std::int64_t chunk) {
        double* const sums = at<double>(partials, kRouterSums * chunk);
        std::fill_n(sums, kRouterSums, 0.0);
        const std::int64_t last = std::min(tokens, (chunk + 1) * kCpuRowChunk);
        for (std::int64_t token = chunk * kCpuRowChunk; token < last; ++token) {
          if (counts) {
            sums[0] += balance_of(at<A>(scores, token * experts),
                                  at<float>(counts, token / group * experts), experts, how.score);
          }
          add_token(sums, at<A>(scores, token * experts), at<A>(logits, token * experts), experts,
                    how.score);
        }
      };
      parallel_for(partials.rows(), 1, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t chunk = first; chunk < last; ++chunk) add_chunk(chunk);
      });
    }
  });
  for (int loss = 0; loss < kRouterSums; ++loss) {
    double sum = 0;
    for (std::int64_t chunk = 0; chunk < partials.rows(); ++chunk) {
      sum += *at<double>(partials, kRouterSums * chunk + loss);
    }
    *at<double>(losses, loss) = loss == 0 ? sum / static_cast<double>(group) : sum;
  }
}

// A token's; `counts` may be null. `balance` is the loss's weight times experts / group's tokens.
template <class A>
struct TokenBackward {
  const A *dweights = nullptr, *logits = nullptr, *scores = nullptr;
  const std::int32_t* chosen = nullptr;
  const float* counts = nullptr;
  double balance = 0, z_loss = 0;
};

// Adds the gradients of the chosen scores.
template <class A>
HWY_INLINE void add_weights(A* dscores, const TokenBackward<A>& token, const Routing& how) {
  A factor = static_cast<A>(how.scale), mean = 0;
  if (how.renormalize) {
    A sum = 0;
    for (std::int64_t k = 0; k < how.top_k; ++k) {
      const A score = token.scores[token.chosen[k]];
      sum += score;
      mean += token.dweights[k] * score;
    }
    mean /= sum;
    factor /= sum;
  }
  for (std::int64_t k = 0; k < how.top_k; ++k) {
    dscores[token.chosen[k]] += factor * (token.dweights[k] - mean);
  }
}

template <class T>
TRIREME_KERNEL void backward_of_row(T* dlogits, const TokenBackward<Accumulator<T>>& token,
                                    std::int64_t experts, const Routing& how) {
  using A = Accumulator<T>;
  const bool is_sigmoid = how.score == RouterScore::kSigmoid;
  HWY_ALIGN A dscores[kMostExperts];
  A shift = 0, factor = static_cast<A>(token.balance);
  if (token.counts && is_sigmoid) {
    Sums<A> products, sums;
    each_vector<A>(experts, [&](auto some, std::int64_t i, int k) {
      const Vec<A> score = load(some, token.scores + i);
      products[k] = MulAdd(load_as<A>(some, token.counts + i), score, products[k]);
      sums[k] += score;
    });
    const A sum = total(sums);
    factor /= sum;
    shift = factor * total(products) / sum;
  }
  each_vector<A>(experts, [&](auto some, std::int64_t i, int) {
    const Vec<A> share = token.counts ? load_as<A>(some, token.counts + i) : zero<A>();
    store(some, dscores + i, spread(factor) * share - spread(shift));
  });
  add_weights(dscores, token, how);
  A mean = 0;
  if (!is_sigmoid) {
    Sums<A> products;
    each_vector<A>(experts, [&](auto some, std::int64_t i, int k) {
      products[k] = MulAdd(load(some, dscores + i), load(some, token.scores + i), products[k]);
    });
    mean = total(products);
  }
  A top = 0, z_factor = 0;
  if (token.z_loss != 0) {
    const Normalizer<A> by = normalizer(token.logits, experts);
    top = by.top;
    z_factor = static_cast<A>(2 * token.z_loss * by.log_sum_exp() / static_cast<double>(by.sum));
  }
  each_vector<A>(experts, [&](auto some, std::int64_t i, int) {
    // Not 1 - score, which would be inexact near 1.
    const Vec<A> slope =
        is_sigmoid ? sigmoid<A>(load(some, token.logits + i)).slope : load(some, token.scores + i);
    Vec<A> value = slope * (load(some, dscores + i) - spread(mean));
    if (token.z_loss != 0) {
      value = MulAdd(spread(z_factor), exp<A>(load(some, token.logits + i) - spread(top)), value);
    }
    store(some, dlogits + i, value);
  });
}

void route_backward(Tensor dlogits, Tensor dweights, Tensor logits, const Routes& routes,
                    const Routing& how, const RouterLosses& losses) {
  const std::int64_t experts = logits.width(), top_k = how.top_k, tokens = logits.rows();
  const Tensor counts = losses.counts;
  const std::int64_t group = counts ? tokens / counts.rows() : tokens;
  const double scale = losses.scale ? *losses.scale.as<double>() : 1;
  with_float(dlogits.dtype, [&]<class T>(T) {
    using A = Accumulator<T>;
    parallel_for(tokens, row_grain(8 * experts), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t token = first; token < last; ++token) {
        const TokenBackward<A> of{.dweights = at<A>(dweights, token * top_k),
                                  .logits = at<A>(logits, token * experts),
                                  .scores = at<A>(routes.scores, token * experts),
                                  .chosen = at<std::int32_t>(routes.experts, token * top_k),
                                  .counts = at<float>(counts, counts ? token / group * experts : 0),
                                  .balance = scale * losses.balance * static_cast<double>(experts) /
                                             static_cast<double>(group),
                                  .z_loss = scale * losses.z_loss};
        backward_of_row(at<T>(dlogits, token * experts), of, experts, how);
      }
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(route);
HWY_EXPORT(router_losses);
HWY_EXPORT(route_backward);

void route(Stream&, const Routes& routes, Tensor logits, const Routing& how, Tensor bias) {
  HWY_DYNAMIC_DISPATCH(route)(routes, logits, how, bias);
}

void update_router_bias(Stream&, Tensor bias, Tensor counts, Tensor grad_scale, double rate) {
  const bool skips = grad_scale.dtype == DType::kF64 ? std::isnan(*grad_scale.as<double>())
                                                     : std::isnan(*grad_scale.as<float>());
  if (skips) return;
  const std::int64_t experts = counts.width();
  for (std::int64_t layer = 0; layer < counts.rows(); ++layer) {
    const float* const count = at<float>(counts, layer * experts);
    float* const biases = at<float>(bias, layer * experts);
    const double mean = std::accumulate(count, count + experts, 0.0) / static_cast<double>(experts);
    for (std::int64_t e = 0; e < experts; ++e) {
      const int sign = (mean > count[e] ? 1 : 0) - (mean < count[e] ? 1 : 0);
      biases[e] += static_cast<float>(sign) * static_cast<float>(rate);
    }
  }
}

void count_choices(Stream&, Tensor counts, Tensor experts) {
  const std::int64_t group = experts.count() / counts.rows(), width = counts.width();
  trireme::cpu::parallel_for(counts.rows(), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      float* const of_group = at<float>(counts, row * width);
      const std::int32_t* const chosen = at<std::int32_t>(experts, row * group);
      std::fill(of_group, of_group + width, 0.0f);
      for (std::int64_t pair = 0; pair < group; ++pair) ++of_group[chosen[pair]];
    }
  });
}

void router_losses(Stream&, Tensor partials, Tensor losses, Tensor counts, Tensor scores,
                   Tensor logits, const Routing& how) {
  HWY_DYNAMIC_DISPATCH(router_losses)(partials, losses, counts, scores, logits, how);
}
void route_backward(Stream&, Tensor dlogits, Tensor dweights, Tensor logits, const Routes& routes,
                    const Routing& how, const RouterLosses& losses) {
  HWY_DYNAMIC_DISPATCH(route_backward)(dlogits, dweights, logits, routes, how, losses);
}

}  // namespace trireme::ops::cpu
#endif
