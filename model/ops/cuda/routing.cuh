#pragma once
// Included only by kernel sources: rows of a router's logits.
#include <cmath>

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/reduce.cuh"
#include "model/ops/cuda/values.cuh"
#include "model/ops/routing.h"

// A warp per token, which has expert 32 i + lane in element i of its registers.
namespace trireme::ops::cuda {

constexpr int kTokenThreads = 128, kTokenWarps = kTokenThreads / 32;

// Calls body(i, expert) for this lane's experts.
template <int kEach, class Body>
__device__ __forceinline__ void each_expert(int experts, const Body& body) {
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int expert = 32 * i + static_cast<int>(threadIdx.x % 32);
    if (expert < experts) body(i, expert);
  }
}

// Normalizes a softmax. Exponentials are computed again where they are used, since a token's do not
// fit in registers with other values.
template <int kEach, class A>
struct Normalizer {
  A top = static_cast<A>(-INFINITY), sum = 0;

  __device__ Normalizer(const A* logits, int experts) {
    each_expert<kEach>(experts, [&](int, int expert) { top = fmax(top, logits[expert]); });
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2)
      top = fmax(top, __shfl_xor_sync(0xffffffffu, top, apart));
    each_expert<kEach>(experts, [&](int, int expert) { sum += exp_of(logits[expert]); });
    sum = warp_sum(sum);
  }
  __device__ A exp_of(A logit) const {
    return std::exp(logit - top);
  }
  __device__ double log_sum_exp() const {
    return static_cast<double>(top) + std::log(static_cast<double>(sum));
  }
};

// Calls body with the Count of experts per lane.
template <class Body>
void with_experts(std::int64_t experts, const Body& body) {
  if (experts <= 32) {
    body(Count<1>{});
  } else if (experts <= 64) {
    body(Count<2>{});
  } else if (experts <= 128) {
    body(Count<4>{});
  } else if (experts <= 256) {
    body(Count<8>{});
  } else {
    body(Count<16>{});
  }
}

}  // namespace trireme::ops::cuda
