#include <algorithm>

#include "model/device/copy.h"
#include "model/ops/cuda/routing.cuh"
#include "model/ops/row_chunks.h"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kCountThreads = 256;
constexpr std::int64_t kCountPairs = 4096;

// As integers, whose sums do not depend on the order, in the place of the floats.
__global__ __launch_bounds__(kCountThreads) void count_pairs(int* counts,
                                                             const std::int32_t* chosen,
                                                             std::int64_t group, int experts) {
  __shared__ int mine[kMostExperts];
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += kCountThreads) mine[e] = 0;
  __syncthreads();
  const std::int64_t first = std::int64_t{blockIdx.x} * kCountPairs;
  const std::int64_t last = min(group, first + kCountPairs);
  for (std::int64_t pair = first + threadIdx.x; pair < last; pair += kCountThreads)
    atomicAdd(mine + chosen[blockIdx.y * group + pair], 1);
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += kCountThreads) {
    if (mine[e] != 0) atomicAdd(counts + std::int64_t{blockIdx.y} * experts + e, mine[e]);
  }
}

__global__ __launch_bounds__(kCountThreads) void to_floats(float* counts, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kCountThreads + threadIdx.x;
  if (i < count) counts[i] = static_cast<float>(__float_as_int(counts[i]));
}

template <class A>
struct LossRows {
  const A *scores = nullptr, *logits = nullptr;
  const float* counts = nullptr;  // may be null
  std::int64_t tokens = 0, group = 0;
  int experts = 0;
  RouterScore score = RouterScore::kSoftmax;
};

// A token's, the same in all lanes: see cpu/routing.cpp.
template <int kEach, class A>
__device__ __forceinline__ double entropy_of(const LossRows<A>& op, std::int64_t row,
                                             const Normalizer<kEach, A>& by) {
  const bool is_sigmoid = op.score == RouterScore::kSigmoid;
  double sum = 0, all = 0;
  each_expert<kEach>(op.experts, [&](int, int expert) {
    const double score = static_cast<double>(op.scores[row + expert]);
    if (!is_sigmoid) {
      sum += score * (static_cast<double>(op.logits[row + expert]) - static_cast<double>(by.top));
      return;
    }
    all += score;
    if (score != 0) sum += score * std::log(score);
  });
  sum = warp_sum(sum);
  if (!is_sigmoid) return std::log(static_cast<double>(by.sum)) - sum;
  all = warp_sum(all);
  return std::log(all) - sum / all;
}

// A block adds a chunk of tokens.
template <int kEach, class A>
__global__ __launch_bounds__(kTokenThreads) void losses_of_chunks(double* partials,
                                                                  const LossRows<A> op) {
  double balance = 0, z_loss = 0, entropy = 0;  // the same in all lanes
  const std::int64_t last = min(op.tokens, (std::int64_t{blockIdx.x} + 1) * kCudaRowChunk);
  for (std::int64_t token = std::int64_t{blockIdx.x} * kCudaRowChunk + threadIdx.x / 32;
       token < last; token += kTokenWarps) {
    const std::int64_t row = token * op.experts;
    if (op.counts != nullptr) {
      const float* const counts = op.counts + token / op.group * op.experts;
      double sum = 0, all = 0;
      each_expert<kEach>(op.experts, [&](int, int expert) {
        const double score = static_cast<double>(op.scores[row + expert]);
        sum += static_cast<double>(counts[expert]) * score;
        all += score;
      });
      sum = warp_sum(sum) * op.experts / static_cast<double>(op.group);
      balance += op.score == RouterScore::kSigmoid ? sum / warp_sum(all) : sum;
    }
    const Normalizer<kEach, A> by(op.logits + row, op.experts);
    const double whole = by.log_sum_exp();
    z_loss += whole * whole;
    entropy += entropy_of(op, row, by);
  }
  const auto add = [](double a, double b) { return a + b; };
  const bool counts = threadIdx.x % 32 == 0;
  balance = over_block<kTokenThreads>(counts ? balance : 0.0, add);
  z_loss = over_block<kTokenThreads>(counts ? z_loss : 0.0, add);
  entropy = over_block<kTokenThreads>(counts ? entropy : 0.0, add);
  if (threadIdx.x != 0) return;
  double* const sums = partials + kRouterSums * blockIdx.x;
  sums[0] = balance;
  sums[1] = z_loss;
  sums[2] = entropy;
}

constexpr int kAddThreads = 512;

__global__ __launch_bounds__(kAddThreads) void add_losses(double* losses, const double* partials,
                                                          std::int64_t chunks) {
  double mine[kRouterSums] = {};
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < chunks; i += kAddThreads) {
#pragma unroll
    for (int loss = 0; loss < kRouterSums; ++loss) mine[loss] += partials[kRouterSums * i + loss];
  }
#pragma unroll
  for (int loss = 0; loss < kRouterSums; ++loss) {
    const double sum =
        over_block<kAddThreads>(mine[loss], [](double a, double b) { return a + b; });
    if (threadIdx.x == 0) losses[loss] = sum;
  }
}

}  // namespace

void count_choices(Stream& stream, Tensor counts, Tensor experts) {
  const std::int64_t group = experts.count() / counts.rows();
  fill_bytes(stream, counts.data, 0, counts.bytes());
  launch(count_pairs, dim3(extent(parts(group, kCountPairs)), extent(counts.rows())), kCountThreads,
         0, stream, reinterpret_cast<int*>(counts.data), experts.as<std::int32_t>(), group,
         static_cast<int>(counts.width()));
  launch(to_floats, extent(parts(counts.count(), kCountThreads)), kCountThreads, 0, stream,
         counts.as<float>(), counts.count());
}

void router_losses(Stream& stream, Tensor partials, Tensor losses, Tensor counts, Tensor scores,
                   Tensor logits, const Routing& how) {
  const std::int64_t tokens = logits.rows();
  with_float(logits.dtype, [&](auto zero) {
    using A = decltype(zero);
    if constexpr (kIsAccumulator<A>) {
      const LossRows<A> op{.scores = scores.as<A>(),
                           .logits = logits.as<A>(),
                           .counts = at<float>(counts),
                           .tokens = tokens,
                           .group = counts ? tokens / counts.rows() : tokens,
                           .experts = static_cast<int>(logits.width()),
                           .score = how.score};
      with_experts(logits.width(), [&]<int n>(Count<n>) {
        launch(losses_of_chunks<n, A>, extent(partials.rows()), kTokenThreads, 0, stream,
               partials.as<double>(), op);
      });
    }
  });
  launch(add_losses, 1, kAddThreads, 0, stream, losses.as<double>(), partials.as<double>(),
         partials.rows());
}

}  // namespace trireme::ops::cuda
