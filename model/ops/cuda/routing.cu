#include <cfloat>
#include <type_traits>

#include "model/ops/routing.h"

#include "model/ops/cuda/routing.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

// 1 / (1 + e^-x) and its derivative, without overflow.
template <class A>
struct Logistic {
  A value, slope;

  __device__ explicit Logistic(A x) {
    const A z = std::exp(-std::fabs(x)), inverse = 1 / (1 + z);
    value = x < 0 ? z * inverse : inverse;
    slope = z * inverse * inverse;
  }
};

template <class A>
struct RouteRows {
  A *scores = nullptr, *weights = nullptr;
  std::int32_t* chosen = nullptr;
  const A* logits = nullptr;
  const float* bias = nullptr;  // may be null
  std::int64_t tokens = 0;
  int experts = 0, top_k = 0;
  RouterScore score = RouterScore::kSoftmax;
  bool renormalize = false;
  A scale = 1;
  int groups = 1, top_groups = 1;
  bool in_turn = false;
};

__device__ std::int64_t token_of_warp() {
  return std::int64_t{blockIdx.x} * kTokenWarps + threadIdx.x / 32;
}

// Of experts in the ranking of a choice: NaN is the lowest number, a taken expert below all.
template <class A>
constexpr A kTaken = static_cast<A>(-INFINITY);
template <class A>
constexpr A kLowest = std::is_same_v<A, float> ? -FLT_MAX : -DBL_MAX;

template <class A>
__device__ A ranked(A score) {
  return score > kLowest<A> ? score : kLowest<A>;
}

// The highest of a warp's ranks and its index; of equals that of the lowest index.
template <class A>
__device__ void warp_best(A& best, int& index) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    const A other = __shfl_xor_sync(0xffffffffu, best, apart);
    const int its = __shfl_xor_sync(0xffffffffu, index, apart);
    if (other > best || (other == best && its < index)) {
      best = other;
      index = its;
    }
  }
}

// Takes all experts outside of the chosen groups.
template <int kEach, class A>
__device__ void limit_to_groups(A (&ranks)[kEach], const RouteRows<A>& op) {
  const int size = op.experts / op.groups, lane = static_cast<int>(threadIdx.x % 32);
  A own = kTaken<A>;  // the rank of this lane's group
  for (int group = 0; group < op.groups; ++group) {
    A high = kTaken<A>, low = kTaken<A>;
    each_expert<kEach>(op.experts, [&](int i, int expert) {
      if (expert / size != group) return;
      low = fmax(low, fmin(high, ranks[i]));
      high = fmax(high, ranks[i]);
    });
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) {
      const A other = __shfl_xor_sync(0xffffffffu, high, apart);
      const A lower = __shfl_xor_sync(0xffffffffu, low, apart);
      low = fmax(fmin(high, other), fmax(low, lower));
      high = fmax(high, other);
    }
    if (lane == group) own = ranked(high + low);
  }
  unsigned chosen = 0;  // bits
  for (int k = 0; k < op.top_groups; ++k) {
    A best = own;
    int group = lane;
    warp_best(best, group);
    if (lane == group) own = kTaken<A>;
    chosen |= 1u << group;
  }
  each_expert<kEach>(op.experts, [&](int i, int expert) {
    if ((chosen >> (expert / size) & 1u) == 0) ranks[i] = kTaken<A>;
  });
}

template <int kEach, class A>
__global__ __launch_bounds__(kTokenThreads) void route_kernel(const RouteRows<A> op) {
  const std::int64_t token = token_of_warp();
  if (token >= op.tokens) return;
  const A* const logits = op.logits + token * op.experts;
  A* const scores = op.scores + token * op.experts;
  A ranks[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) ranks[i] = kTaken<A>;
  const auto keep = [&](int i, int expert, A score) {
    scores[expert] = score;
    ranks[i] = ranked(op.bias != nullptr ? score + op.bias[expert] : score);
  };
  if (op.score == RouterScore::kSigmoid) {
    each_expert<kEach>(
        op.experts, [&](int i, int expert) { keep(i, expert, Logistic<A>(logits[expert]).value); });
  } else {
    const Normalizer<kEach, A> row(logits, op.experts);
    each_expert<kEach>(op.experts, [&](int i, int expert) {
      keep(i, expert, row.exp_of(logits[expert]) / row.sum);
    });
  }
  if (op.groups > 1) limit_to_groups(ranks, op);
  if (op.in_turn) {
    const int first = static_cast<int>(token * op.top_k % op.experts);
    each_expert<kEach>(op.experts, [&](int i, int expert) {
      ranks[i] = static_cast<A>(-((expert - first + op.experts) % op.experts));
    });
  }
  const int lane = static_cast<int>(threadIdx.x % 32);
  std::int32_t chosen = 0;  // this lane's choice and its score
  A weight = 0, sum = 0;
  for (int k = 0; k < op.top_k; ++k) {
    A best = ranks[0];
    int expert = lane;
#pragma unroll
    for (int i = 1; i < kEach; ++i) {
      if (ranks[i] > best) {
        best = ranks[i];
        expert = 32 * i + lane;
      }
    }
    warp_best(best, expert);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (expert == 32 * i + lane) ranks[i] = kTaken<A>;
    }
    if (best == kLowest<A>) best = static_cast<A>(NAN);
    sum += best;
    if (lane == k) {
      chosen = expert;
      weight = best;
    }
  }
  if (op.bias != nullptr || op.in_turn) {  // the ranks are not the scores
    __syncwarp();
    weight = lane < op.top_k ? scores[chosen] : A(0);
    sum = warp_sum(weight);
  }
  if (lane >= op.top_k) return;
  const std::int64_t to = token * op.top_k + lane;
  op.chosen[to] = chosen;
  op.weights[to] = weight * (op.renormalize ? op.scale / sum : op.scale);
}

template <class A>
struct BackwardRows {
  RouteRows<A> route;
  const A* dweights = nullptr;
  const float* counts = nullptr;  // may be null
  const double* scale = nullptr;  // may be null
  std::int64_t group = 0;
  double balance = 0, z_loss = 0;  // `balance` times experts / group
};

template <int kEach, class T>
__global__ __launch_bounds__(kTokenThreads) void backward_kernel(T* dlogits,
                                                                 const BackwardRows<Sum<T>> op) {
  using A = Sum<T>;
  const std::int64_t token = token_of_warp();
  if (token >= op.route.tokens) return;
  const int experts = op.route.experts, top_k = op.route.top_k;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const bool is_sigmoid = op.route.score == RouterScore::kSigmoid;
  const A* const logits = op.route.logits + token * experts;
  const A* const scores = op.route.scores + token * experts;
  const double scale = op.scale != nullptr ? *op.scale : 1;
  A slopes[kEach] = {}, dscores[kEach] = {};  // the slopes of a softmax are the scores
  each_expert<kEach>(experts, [&](int i, int expert) { slopes[i] = scores[expert]; });
  if (op.counts != nullptr) {
    const float* const counts = op.counts + token / op.group * experts;
    A factor = static_cast<A>(scale * op.balance), shift = 0;
    each_expert<kEach>(experts, [&](int i, int expert) { dscores[i] = counts[expert]; });
    if (is_sigmoid) {
      A product = 0, sum = 0;
      each_expert<kEach>(experts, [&](int i, int) {
        product += dscores[i] * slopes[i];
        sum += slopes[i];
      });
      sum = warp_sum(sum);
      shift = warp_sum(product) / sum;
      factor /= sum;
    }
    each_expert<kEach>(experts, [&](int i, int) { dscores[i] = factor * (dscores[i] - shift); });
  }
  // A lane has a choice.
  const bool chooses = lane < top_k;
  const std::int32_t chosen = chooses ? op.route.chosen[token * top_k + lane] : -1;
  A dweight = chooses ? op.dweights[token * top_k + lane] : A(0);
  A factor = op.route.scale;
  if (op.route.renormalize) {
    const A score = chooses ? scores[chosen] : A(0), sum = warp_sum(score);
    dweight -= warp_sum(dweight * score) / sum;
    factor /= sum;
  }
  dweight *= factor;
  for (int k = 0; k < top_k; ++k) {
    const std::int32_t expert = __shfl_sync(0xffffffffu, chosen, k);
    const A value = __shfl_sync(0xffffffffu, dweight, k);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (expert == 32 * i + lane) dscores[i] += value;
    }
  }
  A mean = 0;
  if (is_sigmoid) {
    each_expert<kEach>(experts,
                       [&](int i, int expert) { slopes[i] = Logistic<A>(logits[expert]).slope; });
  } else {
    each_expert<kEach>(experts, [&](int i, int) { mean += dscores[i] * slopes[i]; });
    mean = warp_sum(mean);
  }
  each_expert<kEach>(experts, [&](int i, int) { dscores[i] = slopes[i] * (dscores[i] - mean); });
  if (op.z_loss != 0) {
    const Normalizer<kEach, A> row(logits, experts);
    const A z_factor =
        static_cast<A>(2 * scale * op.z_loss * row.log_sum_exp() / static_cast<double>(row.sum));
    each_expert<kEach>(
        experts, [&](int i, int expert) { dscores[i] += z_factor * row.exp_of(logits[expert]); });
  }
  each_expert<kEach>(experts, [&](int i, int expert) {
    dlogits[token * experts + expert] = rounded<T>(dscores[i]);
  });
}

template <class A>
RouteRows<A> rows_of(const Routes& routes, const Tensor& logits, const Routing& how,
                     const Tensor& bias = {}) {
  return {.scores = routes.scores.as<A>(),
          .weights = at<A>(routes.weights),
          .chosen = routes.experts.as<std::int32_t>(),
          .logits = logits.as<A>(),
          .bias = at<float>(bias),
          .tokens = logits.rows(),
          .experts = static_cast<int>(logits.width()),
          .top_k = static_cast<int>(how.top_k),
          .score = how.score,
          .renormalize = how.renormalize,
          .scale = static_cast<A>(how.scale),
          .groups = static_cast<int>(how.groups),
          .top_groups = static_cast<int>(how.top_groups),
          .in_turn = how.in_turn};
}

// A warp per layer. Counts are whole numbers, which float64 adds exactly in any order.
template <class A>
__global__ void update_bias_kernel(float* bias, const float* counts, const A* grad_scale,
                                   int experts, float rate) {
  if (*grad_scale != *grad_scale) return;
  const std::int64_t row = std::int64_t{blockIdx.x} * experts;
  double sum = 0;
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += 32) sum += counts[row + e];
  const double mean = warp_sum(sum) / experts;
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += 32) {
    const float count = counts[row + e];
    if (mean > count) bias[row + e] += rate;
    if (mean < count) bias[row + e] -= rate;
  }
}

unsigned blocks_for(std::int64_t tokens) {
  return extent(parts(tokens, kTokenWarps));
}

}  // namespace

void route(Stream& stream, const Routes& routes, Tensor logits, const Routing& how, Tensor bias) {
  with_float(logits.dtype, [&](auto zero) {
    using A = decltype(zero);
    if constexpr (kIsAccumulator<A>) {
      with_experts(logits.width(), [&]<int n>(Count<n>) {
        launch(route_kernel<n, A>, blocks_for(logits.rows()), kTokenThreads, 0, stream,
               rows_of<A>(routes, logits, how, bias));
      });
    }
  });
}

void update_router_bias(Stream& stream, Tensor bias, Tensor counts, Tensor grad_scale,
                        double rate) {
  with_float(grad_scale.dtype, [&](auto zero) {
    using A = decltype(zero);
    if constexpr (kIsAccumulator<A>) {
      launch(update_bias_kernel<A>, extent(counts.rows()), 32, 0, stream, bias.as<float>(),
             counts.as<float>(), grad_scale.as<A>(), static_cast<int>(counts.width()),
             static_cast<float>(rate));
    }
  });
}

void route_backward(Stream& stream, Tensor dlogits, Tensor dweights, Tensor logits,
                    const Routes& routes, const Routing& how, const RouterLosses& losses) {
  const Tensor counts = losses.counts;
  const std::int64_t tokens = logits.rows(), experts = logits.width();
  with_float(dlogits.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Sum<T>;
    const BackwardRows<A> op{
        .route = rows_of<A>(routes, logits, how),
        .dweights = dweights.as<A>(),
        .counts = at<float>(counts),
        .scale = at<double>(losses.scale),
        .group = counts ? tokens / counts.rows() : tokens,
        .balance = losses.balance * static_cast<double>(experts * (counts ? counts.rows() : 1)) /
                   static_cast<double>(tokens),
        .z_loss = losses.z_loss};
    with_experts(experts, [&]<int n>(Count<n>) {
      launch(backward_kernel<n, T>, blocks_for(tokens), kTokenThreads, 0, stream, dlogits.as<T>(),
             op);
    });
  });
}

}  // namespace trireme::ops::cuda
